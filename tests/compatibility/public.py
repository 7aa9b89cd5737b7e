"""Every public name that a person can import from a package of lipdp, by introspection."""

import importlib
import pkgutil

import lipdp


def packages():
    """Names of lipdp and of all packages in it, private ones left out."""
    found = [lipdp.__name__]
    for module in pkgutil.walk_packages(lipdp.__path__, "lipdp."):
        if module.ispkg and not any(part.startswith("_") for part in module.name.split(".")):
            found.append(module.name)
    return found


def public_names():
    """``{package: names that it offers}``; a package's ``__all__`` says what is public."""
    return {name: sorted(importlib.import_module(name).__all__) for name in packages()}
