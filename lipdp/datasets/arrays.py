"""Arrays in .npy, .npz and gzipped IDX files."""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from lipdp.datasets.base import Samples, damaged
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


_ROWS = ("x_train", "X_train", "x", "X")
_TESTS = ("x_test", "X_test")
_LONE = ("x", "X", *_TESTS, *_ROWS)
_LABELS = ("y_train", "y")
_SUFFIX = ".npy"


def read_npz(path: Path, *, labelled: bool = True) -> Samples:
    """Reads rows and labels from an .npz file; nothing in it is executed.

    Args:
        path: The file. Rows are ``x`` or ``X``, labels ``y``; or there are ``x_train``,
            ``y_train``, ``x_test`` and ``y_test``.
        labelled: Whether labels are wanted; otherwise the rows may also be ``x_test`` alone.

    Raises:
        InvalidData: If there is no such file, it is damaged, or lacks one of the arrays.
    """
    arrays = _arrays(path)
    rows = _first(arrays, _ROWS if labelled else _LONE)
    if rows is not None and not labelled:
        return Samples(rows, None)
    labels = _first(arrays, _LABELS)
    if rows is None or labels is None:
        raise InvalidData(
            f"{path} must hold the arrays x and y (or x_train, y_train, x_test, y_test)",
            received=sorted(arrays),
            fix="Write it with numpy.savez(path, x=x, y=y)",
        )
    tests = _first(arrays, _TESTS), arrays.get("y_test")
    if (tests[0] is None) != (tests[1] is None):
        raise InvalidData(
            f"{path} holds held-out rows without labels, or labels without rows",
            received=sorted(arrays),
            fix="Add the other array, or leave both out",
        )
    return Samples(rows, labels, *tests)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise InvalidData("There is no such file", received=str(path), fix="Check the path")
    try:
        # ``numpy.load`` takes any other file for a pickle, and says how to run it.
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(_SUFFIX)]
            return {name.removesuffix(_SUFFIX): _array(archive, name, path) for name in names}
    except InvalidData:
        raise
    except MemoryError as error:
        raise damaged(path, error, ".npz file that fits into memory") from None
    except Exception as error:
        # A damaged archive, or header in it, can fail anywhere, with almost any error.
        raise damaged(path, error, ".npz file of numeric arrays") from None


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> np.ndarray:
    with archive.open(name) as file:
        array = _plain(file, name.removesuffix(_SUFFIX), path)
        # A damaged header may ask for less; the checksum is compared at the end alone.
        if file.read(1):
            raise ValueError(f"{name} is longer than its header says")
    return array


def _plain(file: IO[bytes], name: str, path: Path) -> np.ndarray:
    try:
        return np.lib.format.read_array(file, allow_pickle=False)
    except ValueError as error:
        # NumPy's words advise to allow pickles, which run whatever whoever wrote the file wants.
        if not str(error).startswith("Object arrays"):
            raise
        raise InvalidData(
            f"The array {name} of {path} holds Python objects, which are never read",
            received="dtype object",
            fix="Save it as plain numbers or text, as in numpy.savez(path, x=numpy.asarray(x, "
            'dtype="float64"), y=numpy.asarray(y, dtype="str")), or leave it out',
        ) from None


def _first(arrays: Mapping[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray | None:
    return next((arrays[name] for name in names if name in arrays), None)


_FORM = "gzipped IDX file of bytes"


def read_idx(path: Path) -> np.ndarray:
    """Reads an array of bytes.

    The file begins with 0, 0, 8 (unsigned bytes), the number of axes, and the length of each as
    four bytes, the highest first.

    Args:
        path: The file, gzipped.

    Returns:
        Array of uint8.

    Raises:
        InvalidData: If the file is cut off or damaged, or its length is not what it says.
    """
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, error, _FORM) from None
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise damaged(path, "it begins with other bytes", _FORM)
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise damaged(path, "its header is cut off", _FORM)
    shape = np.frombuffer(content[4:start], ">u4").tolist()
    if not shape or len(content) - start != math.prod(shape):
        raise damaged(path, f"{len(content) - start} bytes for the shape {shape}", _FORM)
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    except ValueError as error:
        # More axes, or longer ones beside one of length 0, than an array can have.
        raise damaged(path, error, _FORM) from None
