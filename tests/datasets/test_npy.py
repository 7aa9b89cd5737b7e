import numpy as np
import pytest

from lipdp.datasets.arrays import StoredArray
from lipdp.errors import InvalidData

VALUES = np.arange(30.0).reshape(10, 3)


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "x.npy", VALUES)
    return tmp_path / "x.npy"


def test_it_reads_as_the_array(path):
    stored = StoredArray(path)
    assert stored.shape == (10, 3) and len(stored) == 10 and stored.ndim == 2
    for index in (slice(2, 4), np.array([9, 0, 9]), np.arange(10) > 7, slice(None)):
        found = stored[index]
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, VALUES[index])


def test_nothing_stays_mapped(path):
    stored = StoredArray(path)
    rows = stored[:]
    with open("/proc/self/maps") as maps:
        assert str(path) not in maps.read()
    rows[0] = 7  # A copy: the file keeps its rows.
    np.testing.assert_array_equal(stored[:], VALUES)


def test_damaged_files(tmp_path, path):
    content = path.read_bytes()
    np.save(tmp_path / "objects.npy", np.array([None, 1], dtype=object))
    np.save(tmp_path / "number.npy", np.array(3.0))
    np.savez(tmp_path / "several.npz", x=VALUES)
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    (tmp_path / "cut.npy").write_bytes(content[:-8])
    (tmp_path / "longer.npy").write_bytes(content.replace(b"(10, 3)", b"(10, 2)"))
    (tmp_path / "brace.npy").write_bytes(content.replace(b", }", b", x"))
    (tmp_path / "header.npy").write_bytes(content[:40])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_text("1,2,3\n4,5,6\n")
    names = ("objects", "number", "several", "cut", "longer", "brace", "header", "empty", "text")
    for name in names:
        with pytest.raises(InvalidData, match="damaged") as caught:
            StoredArray(tmp_path / f"{name}.npy")
        assert "pickle" not in str(caught.value)
    with pytest.raises(InvalidData, match="no such file"):
        StoredArray(tmp_path / "none.npy")
    stored = StoredArray(path)
    path.unlink()
    with pytest.raises(InvalidData, match="no such file"):
        stored[:1]
