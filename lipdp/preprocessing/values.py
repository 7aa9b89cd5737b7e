"""Raw numbers of arrays: what is refused, and how they become floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lipdp.errors import InvalidData

#: Numbers that are checked at a time.
_BLOCK = 1 << 22


def check_values(values: Any) -> None:
    """Refuses arrays that hold anything but finite numbers; reads a block of rows at a time.

    Args:
        values: Array or indexable of rows.

    Raises:
        InvalidData: If there are no rows, the type is no number, or a value is NaN or infinite; the
            message gives row and column (the first is 1).
    """
    kind = np.dtype(values.dtype).kind
    if kind not in "biuf" or not len(values):
        raise InvalidData(
            "The array must hold numbers, one row an example",
            received=f"shape {tuple(values.shape)}, dtype {values.dtype}",
            fix="Give a numeric array with at least one row",
        )
    if kind != "f":
        return
    size = max(1, math.prod(values.shape[1:]))
    step = max(1, _BLOCK // size)
    for start in range(0, len(values), step):
        block = np.asarray(values[start : start + step]).reshape(-1, size)
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0]
            raise InvalidData(
                f"Row {start + row + 1}, column {column + 1} is no finite number",
                received=float(block[row, column]),
                fix="Fill it in or drop the row; nothing is replaced silently",
            )


def as_floats(values: np.ndarray, dtype: np.dtype | str) -> np.ndarray:
    """A fresh array of flat rows, shape (n, features)."""
    flat = np.asarray(values).reshape(len(values), math.prod(values.shape[1:]))
    # What overflows a smaller type is clipped to the public range all the same.
    with np.errstate(over="ignore"):
        return flat.astype(dtype)
