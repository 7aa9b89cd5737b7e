"""Schemas of arrays to fill in."""

from __future__ import annotations

from collections.abc import Sequence

from lipdp.config import write_toml
from lipdp.errors import InvalidData

_HEAD = """\
# Fill in every empty list, from public knowledge; do not read it off private rows.
#   classes    every label value, or its name, in the order of the class ids: ["cat", "dog"]
#   low, high  the lowest and highest possible value; what lies outside is clipped
"""
_VECTORS = """\
#   zero       a typical value that becomes 0 (may be left out)
# low, high and zero are one number each, or a list of one number a feature.
"""
_FOLDERS = """\
# The classes are the names of the folders, which the privacy guarantee takes as public.
"""


def blank_array_schema(shape: Sequence[int], dtype: str, classes: Sequence[str] = ()) -> str:
    """A schema with the shape of the rows; classes and ranges are left blank.

    Bytes range from 0 to 255, which is a fact of the type.

    Args:
        shape: Shape of the array, one row an example.
        dtype: Name of its type.
        classes: Names of the folders of the classes, if there are any.

    Returns:
        TOML to fill in; ``encoding_from_toml`` refuses it until that is done.

    Raises:
        InvalidData: If the rows are neither vectors nor images.
    """
    sample = [int(size) for size in shape[1:]]
    low, high = (0, 255) if dtype == "uint8" else ([], [])
    ranges = {"low": low, "high": high}
    facts: dict[str, object] = {"classes": list(classes)}
    if len(sample) == 1:
        facts = {"kind": "vectors", **facts, "features": sample[0], **ranges}
        return _HEAD + _VECTORS + write_toml(facts)
    if len(sample) not in (2, 3):
        raise InvalidData(
            "Rows must be vectors, shape (n, features), or images, shape (n, height, width) or "
            "(n, height, width, channels)",
            received=tuple(shape),
            fix="Reshape them",
        )
    image = sample if len(sample) == 3 else [*sample, 1]
    facts = {"kind": "images", **facts, "shape": image, **ranges}
    return _HEAD + (_FOLDERS if classes else "") + write_toml(facts)
