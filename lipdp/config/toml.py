"""TOML in and out (the standard library reads it only)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    return "\n\n".join(_blocks(tables, ())) + "\n"


def _blocks(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    present = {key: value for key, value in table.items() if value is not None}
    inner = {key: value for key, value in present.items() if isinstance(value, Mapping)}
    lines = [f"{_key(k)} = {toml_value(v)}" for k, v in present.items() if k not in inner]
    if path and (lines or not inner):
        lines.insert(0, f"[{'.'.join(map(_key, path))}]")
    blocks = ["\n".join(lines)] if lines else []
    for key, value in inner.items():
        blocks += _blocks(value, (*path, key))
    return blocks


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _string(key)


def _string(text: str) -> str:
    # JSON escapes all that TOML wants escaped, but for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: object) -> str:
    """A value as it stands in TOML, on one line.

    Raises:
        InvalidConfig: If it has no TOML form.
    """
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            return _string(value)
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case Mapping():
            return "{" + ", ".join(f"{_key(k)} = {toml_value(v)}" for k, v in value.items()) + "}"
    raise InvalidConfig(
        "This value has no TOML form here",
        received=value,
        fix="Use text, numbers, booleans, lists and tables",
    )
