import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipdp.datasets.arrays import read_npz
from lipdp.errors import InvalidData

X, Y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])


def written(folder, **arrays):
    path = folder / "t.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("names", [("x", "y"), ("X", "y"), ("x_train", "y_train")])
def test_rows_and_labels(tmp_path, names):
    found = read_npz(written(tmp_path, **dict(zip(names, (X, Y), strict=True))))
    np.testing.assert_array_equal(found.x, X)
    np.testing.assert_array_equal(found.y, Y)
    assert found.x_test is None and found.y_test is None


def test_a_split_of_its_own(tmp_path):
    found = read_npz(written(tmp_path, x_train=X, y_train=Y, x_test=X[:1], y_test=Y[:1]))
    assert len(found.x) == 3 and len(found.x_test) == len(found.y_test) == 1


def test_rows_alone_are_enough_to_predict(tmp_path):
    assert len(read_npz(written(tmp_path, x=X), labelled=False).x) == 3
    both = written(tmp_path, x_train=X, x_test=X[:2])
    assert len(read_npz(both, labelled=False).x) == 2


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": X}, "must hold the arrays x and y"),
        ({"y": Y}, "must hold the arrays x and y"),
        ({"rows": X, "labels": Y}, "'labels', 'rows'"),
        ({"x_train": X, "y_train": Y, "x_test": X}, "without labels"),
        ({"x_train": X, "y_train": Y, "y_test": Y}, "without labels"),
    ],
)
def test_missing_arrays(tmp_path, arrays, words):
    with pytest.raises(InvalidData, match=words):
        read_npz(written(tmp_path, **arrays))


class Bomb:
    def __reduce__(self):
        return eval, ("1 / 0",)


def test_nothing_in_it_is_executed(tmp_path):
    path = written(tmp_path, x=np.array([Bomb()], dtype=object), y=Y)
    with pytest.raises(InvalidData, match=r"array x of .*t\.npz holds Python objects.*dtype=") as e:
        read_npz(path)
    assert "pickle" not in str(e.value)


def test_other_files_beside_the_arrays(tmp_path):
    path = written(tmp_path, x=X, y=Y)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "words")
    assert len(read_npz(path).x) == 3
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "words")
    with pytest.raises(InvalidData, match="must hold the arrays"):
        read_npz(path, labelled=False)


def test_other_files(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.npy").rename(tmp_path / "one.npz")
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "text.npz").write_text("a,b\n1,2\n")
    for name in ("one.npz", "empty.npz", "text.npz"):
        with pytest.raises(InvalidData, match="damaged") as found:
            read_npz(tmp_path / name)
        assert "pickle" not in str(found.value)
    with pytest.raises(InvalidData, match="no such file"):
        read_npz(tmp_path / "none.npz")


@given(position=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.booleans())
@settings(deadline=None, max_examples=100)
def test_damaged_files_are_read_or_refused(tmp_path_factory, position, byte, cut):
    path = tmp_path_factory.mktemp("npz") / "t.npz"
    np.savez_compressed(path, x=X, y=Y)
    content = bytearray(path.read_bytes())
    position %= len(content)
    content[position] = byte
    path.write_bytes(content[:position] if cut else content)
    try:
        read_npz(path)
    except InvalidData as error:
        assert str(path) in str(error) and "pickle" not in str(error)


def test_a_password(made, tmp_path):
    for way in made.LOCKED:
        path = written(tmp_path, x=X, y=Y)
        made.lock(path, way)
        with pytest.raises(InvalidData, match=r"damaged.*t\.npz.*without a password"):
            read_npz(path)


def test_a_header_without_its_end(tmp_path):
    path, stream = tmp_path / "t.npz", io.BytesIO()
    np.save(stream, X)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", stream.getvalue().replace(b", }", b", x"))
    with pytest.raises(InvalidData, match=r"damaged, or no \.npz file"):
        read_npz(path)


def test_a_header_that_asks_for_less(tmp_path):
    path = written(tmp_path, x=np.arange(20000.0).reshape(5000, 4), y=Y)
    path.write_bytes(path.read_bytes().replace(b"(5000, 4)", b"(5000, 3)"))
    with pytest.raises(InvalidData, match="longer than its header says"):
        read_npz(path)


def test_a_header_that_numpy_would_trust_as_a_pickle(tmp_path):
    path, long = tmp_path / "t.npz", b"\x93NUMPY\x01\x00" + (60000).to_bytes(2, "little")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", long + b" " * 60000)
    with pytest.raises(InvalidData, match="is large and may not be safe") as found:
        read_npz(path)
    assert "pickle" not in str(found.value)
