"""Schemas of tables and of arrays to fill in."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from lipdp.config import write_toml
from lipdp.errors import InvalidData
from lipdp.preprocessing.values import numbers

_TABLE = """\
# Fill in every empty list, then check the kinds, which were guessed:
#   classes     every label value, in the order of the class ids: ["no", "yes"]
#   range       the lowest and highest possible value: [0, 120]; what lies outside is clipped
#   categories  every value that can occur: ["a", "b", "?"]
# Use public knowledge: a code book, the questionnaire, the law, common sense. Do not read ranges or
# categories off private rows: the smallest value or a rare category can betray a single person, and
# no noise hides what is written here. The privacy guarantee takes this file as public.
# A number may also have scale = "log", or bins = [18, 30, 65] to become intervals.
# A category may have allow_unknown = true; kind = "ignore" leaves a column out.
"""


def blank_schema(frame: pd.DataFrame, target: str) -> str:
    """A schema with names and kinds; ranges, categories and classes are left blank.

    A column is a number if every cell is a finite number, else a category.

    Args:
        frame: A table.
        target: Name of the column to predict.

    Returns:
        TOML to fill in; ``Schema.from_toml`` refuses it until that is done.

    Raises:
        InvalidData: If the target is not a column, there is no other column, or there is no row.
    """
    names = [str(name) for name in frame.columns]
    if target not in names:
        close = difflib.get_close_matches(target, names, n=1)
        raise InvalidData(
            "The table has no such target column",
            received=target,
            fix=(f"Did you mean {close[0]!r}? " if close else "") + f"Use one of {names}",
        )
    if frame.empty or len(set(names)) < max(2, len(names)):
        raise InvalidData(
            "A schema needs rows and two or more columns of different names",
            received=names,
            fix="Give a whole table",
        )
    columns = {n: _blank(frame.iloc[:, i]) for i, n in enumerate(names) if n != target}
    return _TABLE + write_toml({"target": target, "classes": [], "columns": columns})


def _blank(cells: pd.Series) -> dict[str, object]:
    if np.isfinite(numbers(cells)).all():
        return {"kind": "number", "range": []}
    return {"kind": "category", "categories": []}


_ARRAYS = """\
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
        return _ARRAYS + _VECTORS + write_toml(facts)
    if len(sample) not in (2, 3):
        raise InvalidData(
            "Rows must be vectors, shape (n, features), or images, shape (n, height, width) or "
            "(n, height, width, channels)",
            received=tuple(shape),
            fix="Reshape them",
        )
    image = sample if len(sample) == 3 else [*sample, 1]
    facts = {"kind": "images", **facts, "shape": image, **ranges}
    return _ARRAYS + (_FOLDERS if classes else "") + write_toml(facts)
