import io
import zipfile

import numpy as np
import pytest
from PIL import Image

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


def test_colours_that_have_no_other_form(folder):
    stream = io.BytesIO()
    Image.new("LAB", SHAPE[1::-1]).save(stream, "TIFF")
    (folder / "dog" / "001.png").write_bytes(stream.getvalue())
    with pytest.raises(InvalidData, match=r"LAB.*dog/001.png"):
        read(folder, (*SHAPE[:2], 1)).x[:]


def test_pixels_of_more_than_a_byte_are_refused(folder):
    deep = np.full(SHAPE[:2], 300, np.uint16)
    Image.fromarray(deep).save(folder / "dog" / "001.png")
    with pytest.raises(InvalidData, match=r"more than 8 bits.*dog/001.png"):
        read(folder, (*SHAPE[:2], 1)).x[:]


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


def write_zip(folder, path, *more, before="./"):
    """As ``bsdtar -a -cf own.zip ./cat ./dog`` writes it, with the folders."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("./", *(f"./{name}/" for name in CLASSES), *more):
            archive.writestr(name, b"")
        for file in sorted(folder.rglob("*.png")):
            archive.writestr(f"{before}{file.relative_to(folder)}", file.read_bytes())


@pytest.mark.parametrize("before", ["./", "././", ".//"])
def test_names_in_a_zip_may_begin_with_a_dot(folder, tmp_path, before):
    path = tmp_path / "own.zip"
    write_zip(folder, path, "./dog/folder.png/", before=before)
    assert image_files(path).names == image_files(folder).names
    assert image_files(path).shape() == SHAPE
    np.testing.assert_array_equal(read(path).x[:], read(folder).x[:])
    assert read(path).y.tolist() == read(folder).y.tolist()


def test_two_spellings_are_one_image(folder, tmp_path):
    path = tmp_path / "own.zip"
    write_zip(folder, path, before="")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("./cat/000.png", (folder / "cat" / "000.png").read_bytes())
    np.testing.assert_array_equal(read(path).x[:], read(folder).x[:])


def test_a_zip_that_changes_behind_our_back(made, folder, tmp_path):
    path = tmp_path / "own.zip"
    made.zip_folder(folder, path)
    stack = read(path).x
    made.zip_folder(folder / "cat", path)
    with pytest.raises(InvalidData, match=r"damaged.*no item named 'cat/000.png'"):
        stack[:]
    for content in (b"", b"no archive"):
        path.write_bytes(content)
        with pytest.raises(InvalidData, match="damaged"):
            stack[:]
    path.unlink()
    with pytest.raises(InvalidData, match="No such file"):
        stack[:]


def test_a_zip_with_a_password(made, folder, tmp_path):
    for way in made.LOCKED:
        made.zip_folder(folder, tmp_path / "own.zip")
        made.lock(tmp_path / "own.zip", way)
        files = image_files(tmp_path / "own.zip")
        for use in (files.shape, lambda files=files: read_images(files, SHAPE).x[:]):
            with pytest.raises(InvalidData, match=r"damaged.*own\.zip.*without a password"):
                use()


def test_a_damaged_zip_of_lzma(folder, tmp_path):
    path, content = tmp_path / "own.zip", (folder / "cat" / "000.png").read_bytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("cat/000.png", content)
    damaged = bytearray(path.read_bytes())
    # Behind the name and four bytes: which kind of LZMA.
    damaged[damaged.index(b"cat/000.png") + len("cat/000.png") + 4] = 255
    path.write_bytes(damaged)
    with pytest.raises(InvalidData, match=r"damaged.*cat/000.png"):
        read(path).x[:]
