"""CIFAR-10: small colour photographs."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lipdp.datasets.base import DATA, ArrayDataset, Download, Samples, damaged
from lipdp.datasets.images import image_files, read_images
from lipdp.datasets.locate import first_existing
from lipdp.errors import InvalidData

#: What an array of NumPy needs to be rebuilt, in files of old and new versions.
_ALLOWED = frozenset(
    {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
    }
)


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no array")
        if name == "_reconstruct":
            module = "numpy.core.multiarray" if _old_numpy() else "numpy._core.multiarray"
        return super().find_class(module, name)


def read_pickle(content: bytes) -> Any:
    """Rebuilds numbers, text, lists, dicts and NumPy arrays; everything else is refused.

    Args:
        content: A pickle; text of Python 2 becomes bytes.

    Raises:
        UnpicklingError: If it names anything that is no array.
    """
    return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()


def _old_numpy() -> bool:
    import numpy as np

    return int(np.__version__.split(".")[0]) < 2


_FOLDER = "cifar-10-batches-py"
_KERAS = "cifar-10-batches-py-target"
_SHAPE = (32, 32, 3)
_FORM = "batch of CIFAR-10 in Python's form"
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = "test_batch"
_PLACES = [
    f"{_KERAS}/{_FOLDER}",
    _FOLDER,
    "cifar-10-python.tar.gz",
    f"{_FOLDER}.tar.gz",
    f"{_KERAS}_archive",
    "cifar10-jpeg.zip",
    "cifar10.zip",
    "cifar10-jpeg",
    "cifar10",
    "cifar-10",
]


def _find(place: Path) -> tuple[Path, ...] | None:
    if (place / "train" / "airplane").is_dir() or (place / _TEST).is_file():
        return (place,)
    return first_existing(place, _PLACES)


def _read(paths: tuple[Path, ...]) -> Samples:
    (path,) = paths
    if path.suffix == ".zip" or (path / "train").is_dir():
        return read_images(image_files(path), _SHAPE)
    names = (*_BATCHES, _TEST)
    batches = _in_folder(path, names) if path.is_dir() else _in_archive(path, names)
    parts = [_batch(path, name, batches[name]) for name in names]
    x = np.concatenate([images for images, _ in parts[:-1]])
    y = np.concatenate([labels for _, labels in parts[:-1]])
    return Samples(x, y, *parts[-1])


def _in_folder(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    try:
        return {name: (path / name).read_bytes() for name in names}
    except OSError as error:
        raise damaged(path, error, "folder of CIFAR-10") from None


def _in_archive(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    found = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                stream = archive.extractfile(member)
                if stream is not None and Path(member.name).name in names:
                    found[Path(member.name).name] = stream.read()
            _read_to_the_end(archive)
    except Exception as error:
        # A damaged archive can fail anywhere, with almost any error.
        raise damaged(path, error, "archive of CIFAR-10") from None
    for name in names:
        if name not in found:
            raise damaged(path, f"{name} is missing", "archive of CIFAR-10")
    return found


def _read_to_the_end(archive: tarfile.TarFile) -> None:
    """Behind the last file of a compressed archive lies the checksum of all of them."""
    while archive.fileobj is not None and archive.fileobj.read(1 << 20):
        pass


def _batch(path: Path, name: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    try:
        return _arrays(path / name, read_pickle(content))
    except InvalidData:
        raise
    except Exception as error:
        # A damaged pickle can fail anywhere, with almost any error.
        why = error if isinstance(error, pickle.UnpicklingError) else "it cannot be read"
        raise damaged(path / name, why, _FORM) from None


def _arrays(path: Path, batch: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(batch, Mapping) or not {b"data", b"labels"} <= set(batch):
        raise damaged(path, "it holds no data and labels", _FORM)
    data, labels = batch[b"data"], np.asarray(batch[b"labels"])
    fits = isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 2
    fits = fits and data.shape[1] == 3072 and labels.shape == (len(data),)
    if not fits or labels.dtype.kind not in "iu":
        raise damaged(path, "its arrays have another shape or type", _FORM)
    return data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels


#: 50,000 training and 10,000 test images of 32 by 32 colour pixels, ten classes.
CIFAR10 = ArrayDataset(
    name="cifar10",
    title="CIFAR-10 (small photographs)",
    licence="none stated; shared for research",
    source="A. Krizhevsky (2009), https://www.cs.toronto.edu/~kriz/cifar.html",
    schema_path=DATA / "cifar10.schema.toml",
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            _KERAS,
            sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            extract=True,
        ),
    ),
    find=_find,
    read=_read,
)
