"""What cells of a column and raw numbers of arrays say, and how they become floats."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from lipdp.errors import InvalidData


def unit_scale(blocks: int) -> float:
    """``1 / sqrt(blocks)``, rounded down to a float32 with ``blocks * scale^2 <= 1`` exactly.

    A row of that many blocks of norm at most 1, times this scale, has entries of at most ``scale``;
    as rounding is monotone, it is no longer than 1 in float64, nor after a cast to float32.
    """
    scale = np.float32(1.0 / math.sqrt(blocks))
    while blocks * Fraction(float(scale)) ** 2 > 1:
        scale = np.nextafter(scale, np.float32(0.0))
    return float(scale)


def root_below(square: Fraction) -> float:
    """The root of a fraction, rounded down."""
    norm = math.sqrt(square)
    while Fraction(norm) ** 2 > square:
        norm = math.nextafter(norm, 0.0)
    return norm


def as_text(cell: object) -> str:
    """A cell as text without spaces around it; "" if it is missing.

    A whole number is written without a fraction: 1, 1.0 and "1" are one value.
    """
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return ""
    if isinstance(cell, float | np.floating):
        if math.isnan(cell):
            return ""
        return str(int(cell)) if float(cell).is_integer() else str(cell)
    return str(cell).strip()


def as_number(cell: object) -> float:
    """A cell as a number; NaN if it is none."""
    # Python reads "1_000" as a number; in a table it is a name.
    if isinstance(cell, str) and "_" in cell:
        return math.nan
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def texts(cells: pd.Series) -> list[str]:
    """Every cell as text."""
    return [as_text(cell) for cell in cells]


def numbers(cells: pd.Series) -> np.ndarray:
    """Every cell as a float64, shape (n,); NaN where it is no number."""
    return np.array([as_number(cell) for cell in cells], dtype=np.float64)


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
