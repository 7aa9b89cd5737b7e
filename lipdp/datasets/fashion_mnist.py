"""Fashion-MNIST: photographs of clothes."""

from __future__ import annotations

from pathlib import Path

from lipdp.datasets.arrays import read_idx
from lipdp.datasets.base import DATA, ArrayDataset, Download, Samples

_BASE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_FOLDERS = ("fashion-mnist", "fashion_mnist", ".")


def _find(place: Path) -> tuple[Path, ...] | None:
    for folder in _FOLDERS:
        paths = tuple(place / folder / name for name in _FILES)
        if all(path.is_file() for path in paths):
            return paths
    return None


def _read(paths: tuple[Path, ...]) -> Samples:
    return Samples(*map(read_idx, paths))


#: 60,000 training and 10,000 test images of 28 by 28 grey pixels, ten kinds of clothes.
FASHION_MNIST = ArrayDataset(
    name="fashion-mnist",
    title="Fashion-MNIST (photographs of clothes)",
    licence="MIT",
    source="H. Xiao, K. Rasul and R. Vollgraf, Zalando SE (2017), as distributed with Keras "
    "and in the Debian package dataset-fashion-mnist",
    schema_path=DATA / "fashion_mnist.schema.toml",
    downloads=tuple(Download(_BASE + n, n, subfolder="fashion-mnist") for n in _FILES),
    find=_find,
    read=_read,
    extra_places=(Path("/usr/share/datasets"),),
)
