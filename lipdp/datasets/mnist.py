"""MNIST: handwritten digits."""

from __future__ import annotations

from pathlib import Path

from lipdp.datasets.arrays import read_npz
from lipdp.datasets.base import DATA, ArrayDataset, Download, Samples
from lipdp.datasets.locate import first_existing


def _find(place: Path) -> tuple[Path, ...] | None:
    return first_existing(place, ["mnist.npz", "mnist/mnist.npz"])


def _read(paths: tuple[Path, ...]) -> Samples:
    return read_npz(paths[0])


#: 60,000 training and 10,000 test images of 28 by 28 grey pixels, ten digits.
MNIST = ArrayDataset(
    name="mnist",
    title="MNIST (handwritten digits)",
    licence="CC BY-SA 3.0",
    source="Y. LeCun, C. Cortes and C. J. C. Burges (1998), as distributed with Keras",
    schema_path=DATA / "mnist.schema.toml",
    downloads=(
        Download(
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
            "mnist.npz",
            sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
        ),
    ),
    find=_find,
    read=_read,
)
