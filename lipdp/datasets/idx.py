"""Arrays of bytes in gzipped IDX files."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from lipdp.datasets._damaged import damaged

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
