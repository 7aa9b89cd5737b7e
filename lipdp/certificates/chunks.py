"""Rows that are read piece by piece, for what takes whole arrays only."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np


def is_read_by_rows(x: Any) -> bool:
    """Whether this is no array, but gives the rows that it is asked for.

    That is an object with ``shape``, a NumPy ``dtype``, ``len`` and indexing by positions or a
    slice that does not offer itself as an array.
    """
    return (
        not hasattr(x, "__array__")
        and isinstance(getattr(x, "dtype", None), np.dtype)
        and all(hasattr(x, name) for name in ("shape", "__len__", "__getitem__"))
    )


class RowChunks(keras.utils.PyDataset):
    """All rows in order, a chunk at a time.

    Args:
        x: Array, a nest of such, or what gives rows when asked.
        y: Labels, one a row, or None.
        size: Rows of a chunk; the last may have fewer.
    """

    def __init__(self, x: Any, y: Any = None, size: int = 1024) -> None:
        super().__init__()
        # Keras takes no list of arrays from a reader of batches.
        self._x = tuple(x) if isinstance(x, list) else x
        self._y, self._size = y, size

    @property
    def num_batches(self) -> int:
        """Number of chunks."""
        return math.ceil(len(keras.tree.flatten(self._x)[0]) / self._size)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        rows = slice(index * self._size, (index + 1) * self._size)
        x = keras.tree.map_structure(lambda values: values[rows], self._x)
        return (x,) if self._y is None else (x, self._y[rows])
