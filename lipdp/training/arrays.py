"""The training rows as arrays that can be indexed at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lipdp.errors import InvalidData


def as_rows(name: str, values: Any) -> np.ndarray:
    """Checks that ``values`` is an array of rows; memory-mapped arrays stay where they are.

    Raises:
        InvalidData: If it is no array, a stream, or a nest of arrays.
    """
    if isinstance(values, (dict, tuple)) or values is None or not hasattr(values, "__len__"):
        raise InvalidData(
            f"{name} must be one array of rows, which can be sampled at random",
            received=type(values).__name__,
            fix="Pass a NumPy array (a stream cannot be Poisson-sampled)",
        )
    rows = values if isinstance(values, np.ndarray) else np.asarray(values)
    if rows.ndim == 0 or rows.dtype == object:
        raise InvalidData(
            f"{name} must be a numeric array with one row an example",
            received=f"shape {rows.shape}, dtype {rows.dtype}",
        )
    return rows


def check_pair(x: np.ndarray, y: np.ndarray) -> None:
    """Refuses inputs and targets of different lengths."""
    if len(x) != len(y):
        raise InvalidData("x and y have different numbers of rows", received=(len(x), len(y)))


def split_validation(
    x: np.ndarray, y: np.ndarray, fraction: float
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """The last ``fraction`` of the rows become validation data, as in Keras."""
    if not 0.0 < fraction < 1.0:
        raise InvalidData("validation_split must lie between 0 and 1", received=fraction)
    start = math.floor(len(x) * (1.0 - fraction))
    return x[:start], y[:start], (x[start:], y[start:])
