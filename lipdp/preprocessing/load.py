"""Encodings from TOML: what a file describes is told by its content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lipdp.config import parse_toml, read_toml
from lipdp.errors import InvalidConfig
from lipdp.preprocessing.image_encoding import ImageEncoding
from lipdp.preprocessing.origin import about
from lipdp.preprocessing.schema import Schema
from lipdp.preprocessing.vector_encoding import VectorEncoding

Encoding = Schema | ImageEncoding | VectorEncoding


def load_encoding(path: str | Path) -> Encoding:
    """Reads the public facts about a table, about images or about vectors.

    Raises:
        InvalidConfig: If the file cannot be read or is not a whole schema.
    """
    tables = read_toml(Path(path))
    with about(f"Schema {path}"):
        return _encoding(tables).read_from(path)


def encoding_from_toml(text: str) -> Encoding:
    """The same from text.

    Raises:
        InvalidConfig: If it is not TOML or not a whole schema.
    """
    return _encoding(parse_toml(text, "the schema"))


def _encoding(tables: Mapping[str, Any]) -> Encoding:
    match tables.get("kind", "table"):
        case "images":
            return ImageEncoding(**tables)
        case "vectors":
            return VectorEncoding(**tables)
        case "table":
            return Schema(**tables)
    raise InvalidConfig(
        "There is no such kind of schema",
        received=tables["kind"],
        fix='Use kind = "images" or "vectors", or leave it out for a table',
    )
