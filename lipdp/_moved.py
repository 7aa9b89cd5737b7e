"""Modules that had another name in an earlier version; it still works, and says the new one."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

#: Packages that people import from, and modules whose classes lie in pickles.
MOVED: Mapping[str, str] = MappingProxyType(
    {
        "lipdp.bounds.table": "lipdp.bounds.engine",
        "lipdp.experiment": "lipdp.run",
        "lipdp.preprocessing.columns": "lipdp.preprocessing.schema",
        "lipdp.privacy._entries": "lipdp.privacy.entries",
        "lipdp.privacy.remarks": "lipdp.privacy.ledger",
        "lipdp.rounding": "lipdp.numerics",
    }
)


class _Moved(ModuleType):
    """Hands out what the module under the new name holds."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return getattr(importlib.import_module(MOVED[self.__name__]), name)
        return name_that_moved(self.__name__, name, {name: MOVED[self.__name__]}, stacklevel=3)


def name_that_moved(
    module: str, name: str, moved: Mapping[str, str], *, stacklevel: int = 3
) -> Any:
    """What a module's ``__getattr__`` answers for a name that lies elsewhere now.

    Args:
        module: Where the name was looked for.
        name: The name.
        moved: By name, the package that has it now.
        stacklevel: Of the warning, for whoever imports the name.

    Raises:
        AttributeError: If it did not move.
    """
    if name not in moved:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    message = f"{name} is now in {moved[name]}, no longer in {module}: import it from there"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
    return getattr(importlib.import_module(moved[name]), name)


class _OldNames(MetaPathFinder, Loader):
    """Finds modules by their old names, where nothing else has them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A package without files, so that modules of an old package are asked for here, too."""
        return ModuleSpec(fullname, self, is_package=True) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that forwards."""
        return _Moved(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module has no code of its own."""


def keep_old_names() -> None:
    """Lets the old names be imported."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.append(_OldNames())
