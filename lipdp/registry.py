"""Names to things: the entries of a registry are what a package offers from its files.

The entry ``tempered_crossentropy`` of the package ``lipdp.losses`` is its ``TemperedCrossentropy``.
Names are read from the package's text, so listing them imports nothing.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from dataclasses import dataclass
from typing import Any

from lipdp.errors import UnknownName

#: Between words of a class name: before a capital behind a small letter, or before one.
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Registry:
    """The public classes or functions of one package, but for those of its file ``base.py``.

    Attributes:
        package: Dotted name of the package, such as ``"lipdp.losses"``.
        kind: What an entry is called in messages, such as ``"loss"``.
    """

    package: str
    kind: str

    def names(self) -> list[str]:
        """Sorted names of all entries, in small letters with underscores; imports none of them."""
        return sorted(self._entries())

    def __getitem__(self, name: str) -> Any:
        """The entry of that name.

        Raises:
            UnknownName: If there is none.
        """
        entries = self._entries()
        if name not in entries:
            raise UnknownName(
                f"There is no {self.kind} of this name",
                received=name,
                fix=f"Use one of: {', '.join(sorted(entries))}",
            )
        module, entry = entries[name]
        return getattr(importlib.import_module(module), entry)

    def _entries(self) -> dict[str, tuple[str, str]]:
        """For each name the module and the object, as the package imports them."""
        spec = importlib.util.find_spec(self.package)
        loader = None if spec is None else spec.loader
        # Archives have loaders of their own kind.
        source = getattr(loader, "get_source", None)
        text = None if source is None else source(self.package)
        return {
            _WORDS.sub("_", entry.name).lower(): (node.module, entry.name)
            for node in ast.walk(ast.parse(text or ""))
            if isinstance(node, ast.ImportFrom) and node.module is not None
            if node.module.startswith(f"{self.package}.")
            if node.module != f"{self.package}.base"
            for entry in node.names
        }
