"""Rows that are encoded when they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.preprocessing.encodings import ImageEncoding, VectorEncoding


class EncodedRows:
    """Encoded rows of an array that stays as it is, uint8 or on disk, until rows are read.

    Indexed by a slice, positions or a mask it returns a new array of these rows, encoded. It is no
    array: what takes it as a whole must read it piece by piece.

    Args:
        values: The raw array, or an indexable with ``shape`` and ``dtype``.
        encoding: The public facts.
        dtype: Type of the encoded rows.
        positions: Which rows of ``values`` these are; by default all.

    Attributes:
        values: As given.
        encoding: As given.

    Raises:
        InvalidData: If the array does not fit the encoding.
    """

    def __init__(
        self,
        values: Any,
        encoding: ImageEncoding | VectorEncoding,
        dtype: np.dtype | str = "float64",
        positions: np.ndarray | None = None,
    ) -> None:
        if positions is None:
            encoding.check(values)
            positions = np.arange(len(values))
        self.values = values
        self.encoding = encoding
        self._positions = positions
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and features of each."""
        return len(self), self.encoding.num_features

    @property
    def ndim(self) -> int:
        """Two axes."""
        return 2

    @property
    def stays_raw(self) -> bool:
        """Whether the raw rows take less memory than the encoded ones would."""
        return self.values.dtype.itemsize < self.dtype.itemsize or not isinstance(
            self.values, np.ndarray
        )

    def __getitem__(self, index: Any) -> np.ndarray:
        positions = self._positions[index]
        rows = self.encoding.encode(self.values[np.atleast_1d(positions)], self.dtype)
        return rows[0] if np.ndim(positions) == 0 else rows

    def take(self, positions: np.ndarray) -> EncodedRows:
        """Some of these rows, again encoded only when they are read."""
        chosen = self._positions[positions]
        return EncodedRows(self.values, self.encoding, self.dtype, chosen)
