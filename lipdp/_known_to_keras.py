"""Makes Keras know the classes of this package, without importing Keras.

``keras.models.load_model`` looks up classes by registered names and imports no package but its own,
while this package imports nothing heavy before it is used. So its classes are registered once Keras
is there: at once, or when the import of Keras or of a part of this package that needs it is done.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Imports every module that registers a class.
_REGISTERS_ALL = "lipdp.statistics.layers"


class _Watcher(MetaPathFinder):
    """Registers all when the outermost import is done that Keras came with.

    Inside it a module of this package may be half imported. The watcher takes no import over: it
    lets the other finders find, and hears when the module that they found was executed.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._asks = False

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders find of Keras and of this package, with an ear on it."""
        watched = fullname == "keras" or fullname.startswith("lipdp.")
        if self._asks or not watched:
            return None
        self._asks = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asks = False
        if spec is not None and spec.loader is not None:
            self._listen(spec.loader)
        return spec

    def _listen(self, loader: Any) -> None:
        execute = loader.exec_module

        def heard(module: ModuleType) -> None:
            self._depth += 1
            try:
                execute(module)
            finally:
                self._depth -= 1
            if self._depth == 0 and "keras" in sys.modules:
                self._register()

        loader.exec_module = heard

    def _register(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            importlib.import_module(_REGISTERS_ALL)


def make_known() -> None:
    """Registers all classes if Keras was imported, else as soon as it is."""
    if "keras" in sys.modules:
        importlib.import_module(_REGISTERS_ALL)
    else:
        sys.meta_path.insert(0, _Watcher())
