"""A schema to fill in."""

from __future__ import annotations

import difflib

import numpy as np
import pandas as pd

from lipdp.config import write_toml
from lipdp.errors import InvalidData
from lipdp.preprocessing.cells import numbers

_HEAD = """\
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
    return _HEAD + write_toml({"target": target, "classes": [], "columns": columns})


def _blank(cells: pd.Series) -> dict[str, object]:
    if np.isfinite(numbers(cells)).all():
        return {"kind": "number", "range": []}
    return {"kind": "category", "categories": []}
