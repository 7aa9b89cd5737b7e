"""Arrays in .npy files that may be larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lipdp.datasets._damaged import damaged
from lipdp.errors import InvalidData


class StoredArray:
    """An array in a .npy file, of which only the rows that are asked for are read.

    The file is mapped for each access anew, so that no page of it stays in this process.

    Args:
        path: The file.

    Raises:
        InvalidData: If there is no such file, or it is damaged or holds no numbers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        mapped = self._mapped()
        if mapped.ndim == 0:
            raise damaged(path, "it holds a single number", ".npy file of rows")
        self.shape: tuple[int, ...] = mapped.shape
        self.dtype = mapped.dtype

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.array(self._mapped()[index])

    def _mapped(self) -> np.ndarray:
        if not self._path.is_file():
            raise InvalidData(
                "There is no such file", received=str(self._path), fix="Check the path"
            )
        try:
            # ``numpy.load`` takes any other file for a pickle, and says how to run it.
            mapped = np.lib.format.open_memmap(self._path, mode="r")
            size, wanted = self._path.stat().st_size, mapped.offset + mapped.nbytes
            if size != wanted:
                raise ValueError(f"it has {size} bytes, and its header says {wanted}")
            return mapped
        except Exception as error:
            # NumPy reads the header as a text of Python, which can fail with almost any error.
            raise damaged(self._path, error, ".npy file of numbers") from None
