"""Names to things: a registry is a package whose files are its entries.

The entry ``tempered_crossentropy`` of the package ``lipdp.losses`` is the object of the file
``lipdp/losses/tempered_crossentropy.py`` that has the same name, ignoring case and underscores
(``TemperedCrossentropy``). Listing the names imports nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from typing import Any

from lipdp.errors import UnknownName


@dataclass(frozen=True)
class Registry:
    """The public entries of one package.

    Attributes:
        package: Dotted name of the package, such as ``"lipdp.losses"``.
        kind: What an entry is called in messages, such as ``"loss"``.
        exclude: Files that are not entries.
    """

    package: str
    kind: str
    exclude: frozenset[str] = frozenset({"base"})

    def names(self) -> list[str]:
        """Sorted names of all entries, without importing them."""
        spec = importlib.util.find_spec(self.package)
        locations = list(spec.submodule_search_locations or []) if spec else []
        found = (module.name for module in pkgutil.iter_modules(locations))
        return sorted(n for n in found if not n.startswith("_") and n not in self.exclude)

    def __getitem__(self, name: str) -> Any:
        """The entry of that name.

        Raises:
            UnknownName: If there is none.
        """
        if name not in self.names():
            raise UnknownName(
                f"There is no {self.kind} of this name",
                received=name,
                fix=f"Use one of: {', '.join(self.names())}",
            )
        module = importlib.import_module(f"{self.package}.{name}")
        wanted = name.replace("_", "")
        for key, value in vars(module).items():
            if key.lower().replace("_", "") == wanted:
                return value
        raise UnknownName(f"The file of this {self.kind} defines no such object", received=name)
