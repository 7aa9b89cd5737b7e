import gzip

import numpy as np
import pytest

from lipdp.datasets.arrays import read_idx
from lipdp.errors import InvalidData

VALUES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
RAW = bytes([0, 0, 8, 3]) + np.array([2, 3, 4], ">u4").tobytes() + VALUES.tobytes()


def written(folder, content):
    path = folder / "t-idx3-ubyte.gz"
    path.write_bytes(content)
    return path


def test_bytes_in_order(tmp_path):
    found = read_idx(written(tmp_path, gzip.compress(RAW)))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, VALUES)


BAD = {
    "cut off": gzip.compress(RAW)[:-12],
    "trailer cut off": gzip.compress(RAW)[:-1],
    "no gzip": RAW,
    "empty": b"",
    "nothing inside": gzip.compress(b""),
    "values missing": gzip.compress(RAW[:-1]),
    "values too many": gzip.compress(RAW + b"1"),
    "header cut off": gzip.compress(RAW[:9]),
    "no axes": gzip.compress(b"\x00\x00\x08\x00\x07"),
    "too many axes": gzip.compress(b"\x00\x00\x08\x28" + bytes([0, 0, 0, 1] * 40) + b"\x07"),
    "too long axes": gzip.compress(b"\x00\x00\x08\x04" + bytes(4) + b"\xff" * 12),
    "other type": gzip.compress(b"\x00\x00\x0d" + RAW[3:]),
    "other bytes": gzip.compress(b"P5 28 28" + RAW),
}


@pytest.mark.parametrize("case", BAD)
def test_damaged_files(tmp_path, case):
    path = written(tmp_path, BAD[case])
    with pytest.raises(InvalidData, match="damaged") as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
