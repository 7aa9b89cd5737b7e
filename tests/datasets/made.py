"""Small files in the forms of the registered sets."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zipfile

import numpy as np
from PIL import Image

#: In an entry of the list of a .zip: what zipfile cannot read, as a position and a value.
LOCKED = {"password": (8, 0x01), "strong encryption": (8, 0x41), "deflate64": (10, 9)}

CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


def pixels(rows, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (rows, *shape)).astype(np.uint8)


def write_mnist(folder, rows=200):
    y = np.arange(rows) % 10
    x = pixels(rows, 28, 28)
    parts = {"x_train": x, "y_train": y, "x_test": x[:50], "y_test": y[:50]}
    np.savez_compressed(folder / "mnist.npz", **parts)


def idx(values):
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    return gzip.compress(header + values.astype(np.uint8).tobytes())


def write_fashion(folder, rows=100):
    folder.mkdir(parents=True, exist_ok=True)
    for side, count in (("train", rows), ("t10k", 30)):
        x, y = pixels(count, 28, 28), np.arange(count) % 10
        (folder / f"{side}-images-idx3-ubyte.gz").write_bytes(idx(x))
        (folder / f"{side}-labels-idx1-ubyte.gz").write_bytes(idx(y))


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings."""

    dispatch = {**pickle._Pickler.dispatch}

    def save_string(self, text):
        self.write(pickle.BINSTRING + struct.pack("<i", len(text)) + text)

    dispatch[bytes] = save_string


def as_python2(value):
    """A pickle as Python 2 with an old NumPy wrote it."""
    stream = io.BytesIO()
    Python2Pickler(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def batch(rows, seed, blank=False):
    labels = [int(i) % 10 for i in range(rows)]
    data = np.zeros((rows, 3072), np.uint8) if blank else pixels(rows, 3072, seed=seed)
    return as_python2({b"data": data, b"labels": labels})


def cifar_batches(rows=20, blank=False):
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    return {name: batch(rows, seed, blank) for seed, name in enumerate(names)}


def write_cifar_folder(folder, rows=20):
    folder.mkdir(parents=True)
    for name, content in cifar_batches(rows).items():
        (folder / name).write_bytes(content)


def write_cifar_archive(path, rows=20, blank=False):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in cifar_batches(rows, blank).items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def png(values):
    stream = io.BytesIO()
    Image.fromarray(values if values.shape[-1] == 3 else values[..., 0]).save(stream, "PNG")
    return stream.getvalue()


def write_images(folder, classes, rows=3, shape=(32, 32, 3), sides=("train", "test")):
    """PNGs in ``folder/side/class``, or in ``folder/class`` for the side ""."""
    for s, side in enumerate(sides):
        for c, name in enumerate(classes):
            place = folder / side / name
            place.mkdir(parents=True)
            for row, image in enumerate(pixels(rows, *shape, seed=10 * s + c)):
                (place / f"{row:03}.png").write_bytes(png(image))


def zip_folder(folder, path):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))


def lock(path, way):
    """Says in the list of a .zip that its files are locked, in one of the ways of LOCKED."""
    position, value = LOCKED[way]
    content = bytearray(path.read_bytes())
    entry = content.find(b"PK\x01\x02")
    while entry >= 0:
        content[entry + position] = value
        entry = content.find(b"PK\x01\x02", entry + 1)
    path.write_bytes(content)
