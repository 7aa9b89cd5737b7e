"""The training rows as arrays that can be indexed at random."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from lipdp.certificates.chunks import is_read_by_rows
from lipdp.errors import InvalidData


def as_rows(name: str, values: Any) -> np.ndarray:
    """Checks that ``values`` is an array of rows; what is mapped or read by rows stays where it is.

    Raises:
        InvalidData: If it is no array, a stream, or a nest of arrays.
    """
    if isinstance(values, (dict, tuple)) or values is None or not hasattr(values, "__len__"):
        raise InvalidData(
            f"{name} must be one array of rows, which can be sampled at random",
            received=type(values).__name__,
            fix="Pass a NumPy array (a stream cannot be Poisson-sampled)",
        )
    as_it_is = isinstance(values, np.ndarray) or is_read_by_rows(values)
    rows = values if as_it_is else np.asarray(values)
    if len(rows.shape) == 0 or rows.dtype == object:
        raise InvalidData(
            f"{name} must be a numeric array with one row an example",
            received=f"shape {rows.shape}, dtype {rows.dtype}",
        )
    return rows


def as_inputs(x: Any, num_inputs: int) -> Any:
    """The rows of each input of a model: one array, or a list or dict of them as Keras takes it.

    Raises:
        InvalidData: If there are not ``num_inputs`` arrays of rows, as many rows each.
    """
    if num_inputs == 1:
        return as_rows("x", x)
    if not isinstance(x, (dict, list, tuple)) or len(x) != num_inputs:
        raise InvalidData(
            f"The model has {num_inputs} inputs, and x must be a list or dict of that many arrays",
            received=type(x).__name__,
        )
    if isinstance(x, dict):
        rows: Any = {name: as_rows(f"x[{name!r}]", values) for name, values in x.items()}
    else:
        rows = [as_rows(f"x[{i}]", values) for i, values in enumerate(x)]
    lengths = [len(values) for values in keras.tree.flatten(rows)]
    if len(set(lengths)) != 1:
        raise InvalidData("The inputs have different numbers of rows", received=lengths)
    return rows


def number_of_rows(x: Any) -> int:
    """Rows of one array or of a nest of arrays."""
    return len(keras.tree.flatten(x)[0])


def check_pair(x: Any, y: np.ndarray) -> None:
    """Refuses inputs and targets of different lengths."""
    if number_of_rows(x) != len(y):
        raise InvalidData(
            "x and y have different numbers of rows", received=(number_of_rows(x), len(y))
        )


def split_validation(
    x: Any, y: np.ndarray, fraction: float
) -> tuple[Any, np.ndarray, tuple[Any, np.ndarray]]:
    """The last ``fraction`` of the rows become validation data, as in Keras."""
    if not 0.0 < fraction < 1.0:
        raise InvalidData("validation_split must lie between 0 and 1", received=fraction)
    start = math.floor(len(y) * (1.0 - fraction))
    first = keras.tree.map_structure(lambda rows: rows[:start], x)
    last = keras.tree.map_structure(lambda rows: rows[start:], x)
    return first, y[:start], (last, y[start:])
