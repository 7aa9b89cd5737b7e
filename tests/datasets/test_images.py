import numpy as np
import pytest

from lipdp.datasets.images import image_files, read_images
from lipdp.errors import InvalidData

SHAPE = (4, 6, 3)
CLASSES = ("cat", "dog")


@pytest.fixture
def folder(made, tmp_path):
    made.write_images(tmp_path / "own", CLASSES, shape=SHAPE, sides=("",))
    return tmp_path / "own"


def read(folder, shape=SHAPE, **options):
    return read_images(image_files(folder), shape, **options)


def test_the_folder_is_the_label(made, folder):
    (folder / "dog" / ".hidden.png").write_bytes(b"")
    (folder / "notes.txt").write_text("")
    found = read(folder)
    assert found.y.tolist() == ["cat"] * 3 + ["dog"] * 3 and found.x_test is None
    np.testing.assert_array_equal(found.x[3:], made.pixels(3, *SHAPE, seed=1))
    assert image_files(folder).classes() == ["cat", "dog"]
    assert image_files(folder).shape() == SHAPE


def test_train_and_test_are_the_split(made, tmp_path):
    made.write_images(tmp_path, CLASSES, shape=SHAPE, rows=2)
    found = read(tmp_path)
    assert len(found.x) == len(found.x_test) == 4
    assert found.y_test.tolist() == ["cat", "cat", "dog", "dog"]
    assert image_files(tmp_path).classes() == ["cat", "dog"]


def test_grey_images(made, tmp_path):
    made.write_images(tmp_path, CLASSES, shape=(4, 4, 1), sides=("",))
    assert image_files(tmp_path).shape() == (4, 4, 1)
    found = read(tmp_path, (4, 4, 1))
    np.testing.assert_array_equal(found.x[:3], made.pixels(3, 4, 4, 1))
    colours = read(tmp_path, (4, 4, 3)).x[:]
    assert (colours == found.x[:]).all()


def test_images_of_no_class_can_be_predicted(folder):
    (folder / "cat" / "000.png").rename(folder / "000.png")
    assert len(read(folder, labelled=False).x) == 6
    with pytest.raises(InvalidData, match=r"folder of its class.*000.png"):
        read(folder)


def test_damaged_images(made, folder):
    path = folder / "dog" / "001.png"
    good = path.read_bytes()
    for content in (b"", b"text", good[: len(good) // 2], good[:20]):
        path.write_bytes(content)
        stack = read(folder).x
        stack[:3]
        with pytest.raises(InvalidData, match=r"damaged.*dog/001.png"):
            stack[:]
    path.write_bytes(made.png(made.pixels(1, 6, 4, 3)[0]))
    with pytest.raises(InvalidData, match="6 pixels high and 4 wide; the schema says 4 and 6"):
        read(folder).x[:]


def test_places_without_images(tmp_path):
    with pytest.raises(InvalidData, match="no images"):
        image_files(tmp_path)
    with pytest.raises(InvalidData, match="1, 3 or 4 channels"):
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "1.png").write_bytes(b"")
        read(tmp_path, (4, 4, 2))
    (tmp_path / "t.zip").write_bytes(b"PK\x03\x04nothing")
    with pytest.raises(InvalidData, match="damaged"):
        image_files(tmp_path / "t.zip")


def test_a_zip_cut_off(made, folder, tmp_path):
    path = tmp_path / "own.zip"
    made.zip_folder(folder, path)
    np.testing.assert_array_equal(read(path).x[:], read(folder).x[:])
    content = bytearray(path.read_bytes())
    path.write_bytes(content[:-30])
    with pytest.raises(InvalidData, match="damaged"):
        image_files(path)
    content[60:90] = bytes(30)
    path.write_bytes(content)
    with pytest.raises(InvalidData, match="damaged"):
        read(path).x[:]
