"""Rows from a person's own files, by their suffix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lipdp.datasets.arrays import StoredArray, read_npz
from lipdp.datasets.base import Samples
from lipdp.datasets.images import image_files, read_images
from lipdp.datasets.tables import TABLE_SUFFIXES
from lipdp.errors import InvalidConfig, InvalidData


def is_images(path: Path) -> bool:
    """Whether this is a folder of images, or a .zip of it."""
    return path.is_dir() or path.suffix.lower() == ".zip"


def read_arrays(
    path: Path,
    *,
    labels: Path | None = None,
    labelled: bool = True,
    image_shape: Sequence[int] | None = None,
) -> Samples:
    """Reads arrays, or images if their shape is given.

    Args:
        path: An .npz, an .npy, or a folder or .zip of images.
        labels: The labels of an .npy, as another one.
        labelled: Whether labels must be there.
        image_shape: Height, width and channels of image files.

    Raises:
        InvalidData: If it cannot be read, or is of another kind.
        InvalidConfig: If labels are missing, or are given twice.
    """
    check_suffix(path)
    suffix = path.suffix.lower()
    if labels is not None and (is_images(path) or suffix != ".npy"):
        raise InvalidConfig(
            "data.labels belongs to an .npy file; here the labels are in the file itself",
            received=str(labels),
            fix="Leave it out",
        )
    if is_images(path):
        if image_shape is None:
            raise InvalidData(
                "The schema describes vectors, and this holds images", received=str(path)
            )
        return read_images(image_files(path), image_shape, labelled=labelled)
    if suffix != ".npy":
        return read_npz(path, labelled=labelled)
    return _stored(path, labels, labelled)


def array_form(path: Path) -> tuple[tuple[int, ...], str, list[str]]:
    """Shape, type and folders of classes of an .npz, an .npy or images; no value of a row.

    Raises:
        InvalidData: If it cannot be read, or is of another kind.
    """
    if is_images(path):
        files = image_files(path)
        return (len(files.names), *files.shape()), "uint8", files.classes()
    check_suffix(path)
    rows = read_arrays(path, labelled=False).x
    return tuple(rows.shape), np.dtype(rows.dtype).name, []


def _stored(path: Path, labels: Path | None, labelled: bool) -> Samples:
    rows = StoredArray(path)
    if not labelled:
        return Samples(rows, None)
    if labels is None:
        raise InvalidConfig(
            "The labels of an .npy file are in another one",
            received=str(path),
            fix="Name it, as in --set data.labels=y.npy",
        )
    return Samples(rows, StoredArray(labels)[:])


def check_suffix(path: Path) -> None:
    """Refuses a file of which the suffix says that nothing here reads it.

    Raises:
        InvalidData: If it is no table, no array and no folder of images.
    """
    suffixes = (*TABLE_SUFFIXES, ".npz", ".npy")
    if not is_images(path) and not path.name.lower().endswith(suffixes):
        raise InvalidData(
            "This kind of file cannot be read",
            received=str(path),
            fix=f"Give one of {', '.join(suffixes)}, a folder of images or a .zip of it",
        )
