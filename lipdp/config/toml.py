"""TOML in and out, with one kind of error."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from lipdp.errors import InvalidConfig


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a UTF-8 TOML file.

    Raises:
        InvalidConfig: If the file cannot be read or is not TOML.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidConfig(
            f"The file cannot be read ({error})",
            received=str(path),
            fix="Give the path of a TOML file in UTF-8",
        ) from None
    return parse_toml(text, str(path))


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Args:
        text: TOML.
        origin: What the text is called in the error.

    Raises:
        InvalidConfig: If the text is not TOML.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(
            f"Not valid TOML: {error}", received=origin, fix="Correct that line (see toml.io)"
        ) from None


def write_toml(tables: Mapping[str, Any]) -> str:
    """TOML that ``parse_toml`` reads back to an equal mapping; None values are left out.

    Raises:
        InvalidConfig: If a value has no TOML form.
    """
    return _dumped(_present(tables), indent=4)


def toml_value(value: object) -> str:
    """A value as it stands in TOML behind its key, lists over several lines.

    Raises:
        InvalidConfig: If it has no TOML form.
    """
    # Inside two lists, where no table gets a header.
    return _dumped({"_": [[value]]}, indent=0)[len("_ = [\n[\n") : -len(",\n],\n]\n")]


def _present(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _present(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }


def _dumped(tables: Mapping[str, Any], indent: int) -> str:
    try:
        return tomli_w.dumps(tables, indent=indent)
    except (TypeError, ValueError) as error:
        raise InvalidConfig(
            f"A value has no TOML form here: {error}",
            received=tables,
            fix="Use text, numbers, booleans, lists and tables",
        ) from None
