"""A damaged byte of a file is refused, or the file reads as before where it has a checksum."""

import gzip
import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lipdp.datasets import read_table
from lipdp.datasets.arrays import StoredArray, read_idx, read_npz
from lipdp.datasets.cifar10 import CIFAR10
from lipdp.datasets.images import image_files, read_images
from lipdp.errors import InvalidData

X, Y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])


def npy(made, folder):
    np.save(folder / "t.npy", X)
    return folder / "t.npy"


def npz(made, folder):
    np.savez(folder / "t.npz", x=X, y=Y)
    return folder / "t.npz"


def images(made, folder):
    made.write_images(folder / "own", ("a", "b"), rows=1, shape=(2, 2, 3), sides=("",))
    made.zip_folder(folder / "own", folder / "t.zip")
    return folder / "t.zip"


def tiff(made, folder):
    """What Pillow reads as the content says, under the name of another form."""
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "TIFF")
    (folder / "own" / "a").mkdir(parents=True)
    (folder / "own" / "a" / "0.png").write_bytes(stream.getvalue())
    return folder / "own" / "a" / "0.png"


def idx(made, folder):
    (folder / "t.gz").write_bytes(made.idx(Y))
    return folder / "t.gz"


def cifar(made, folder):
    made.write_cifar_archive(folder / "t.tar.gz", rows=1, blank=True)
    return folder / "t.tar.gz"


def parquet(made, folder):
    pytest.importorskip("pyarrow", exc_type=ImportError)
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def csv(made, folder):
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n"))
    return folder / "t.csv.gz"


def samples(found):
    return [found.x[:], found.y, *(() if found.x_test is None else (found.x_test, found.y_test))]


READ = {
    npy: lambda path: [StoredArray(path)[:]],
    npz: lambda path: samples(read_npz(path)),
    images: lambda path: samples(read_images(image_files(path), (2, 2, 3))),
    tiff: lambda path: samples(read_images(image_files(path.parents[1]), (2, 2, 3))),
    idx: lambda path: [read_idx(path)],
    cifar: lambda path: samples(CIFAR10.read((path,))),
    parquet: lambda path: [read_table(path).to_numpy()],
    csv: lambda path: [read_table(path).to_numpy()],
}
#: What says of any damage that it is there: a checksum of all that is read.
CHECKED = (npz, idx, cifar, csv)


def outcome(form, path, content):
    """What a file reads as; None if it is refused, in words that name it."""
    path.write_bytes(content)
    try:
        return READ[form](path)
    except InvalidData as error:
        assert str(path) in str(error) and "pickle" not in str(error)
    return None


def changed(content, position, value):
    return content[:position] + bytes([value]) + content[position + 1 :]


def same(found, wanted):
    return all(np.array_equal(*pair) for pair in zip(found, wanted, strict=True))


@pytest.mark.parametrize(
    "form", [form for form in READ if form is not tiff], ids=lambda form: form.__name__
)
def test_any_byte(made, tmp_path, form):
    path = form(made, tmp_path)
    good, wanted = path.read_bytes(), READ[form](path)
    for position in range(0, len(good), 1 + len(good) // 180):
        for value in {0, good[position] ^ 1} - {good[position]}:
            found = outcome(form, path, changed(good, position, value))
            if form in CHECKED:
                assert found is None or same(found, wanted), (position, value)


#: What was raised once: by the byte so far behind the last such text, with a new value.
FOUND = {
    "tokenize.TokenError": (npy, b", }", 2, 0),
    "RuntimeError: a password": (npz, b"PK\x01\x02", 8, 1),
    "RuntimeError: a password of images": (images, b"PK\x01\x02", 8, 1),
    "NotImplementedError: strong encryption": (npz, b"PK\x01\x02", 8, 0x41),
    "NotImplementedError: a patch": (images, b"PK\x01\x02", 8, 0x20),
    "NotImplementedError: a compression": (npz, b"PK\x01\x02", 10, 99),
    "NotImplementedError: a version": (npz, b"PK\x01\x02", 6, 255),
    "NotImplementedError: a version of images": (images, b"PK\x01\x02", 6, 255),
    "IndexError: a folder without a name": (images, b"a/PK\x01\x02", 0, 0),
    "ArrowException: text that is none": (parquet, b"\x01\x00\x00\x00x", 4, 255),
    "TypeError: a fraction where the pixels begin": (tiff, b"\x11\x01\x04\x00", 2, 5),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_was_found(made, tmp_path, case):
    form, text, offset, value = FOUND[case]
    path = form(made, tmp_path)
    good = path.read_bytes()
    outcome(form, path, changed(good, good.rindex(text) + offset, value))
