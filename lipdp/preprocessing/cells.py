"""What the cells of a column say, whatever type a file gave them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd


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
