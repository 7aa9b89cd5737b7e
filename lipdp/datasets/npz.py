"""Arrays in .npz files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lipdp.datasets._damaged import damaged
from lipdp.datasets.base import Samples
from lipdp.errors import InvalidData

_ROWS = ("x_train", "X_train", "x", "X")
_TESTS = ("x_test", "X_test")
_LONE = ("x", "X", *_TESTS, *_ROWS)
_LABELS = ("y_train", "y")
#: Of a .zip file, with and without content.
_BEGINNINGS = (b"PK\x03\x04", b"PK\x05\x06")


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
        # Any other file NumPy takes for a pickle, and says how to run it.
        with path.open("rb") as file:
            if file.read(4) not in _BEGINNINGS:
                raise ValueError("it is no archive of arrays")
        with np.load(path, allow_pickle=False) as archive:
            found = {name: _plain(archive, name, path) for name in archive.files}
    except InvalidData:
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged(path, error, ".npz file of numeric arrays") from None
    except MemoryError as error:
        raise damaged(path, error, ".npz file that fits into memory") from None
    # An archive may hold other files too, which come as bytes.
    return {name: array for name, array in found.items() if isinstance(array, np.ndarray)}


def _plain(archive: Mapping[str, object], name: str, path: Path) -> object:
    try:
        return archive[name]
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
