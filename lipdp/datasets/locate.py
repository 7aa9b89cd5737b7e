"""Where the files of a data set lie."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lipdp.datasets.base import ArrayDataset
from lipdp.errors import InvalidData

#: Names a folder of data sets.
VARIABLE = "LIPDP_DATA"


def search_places(dataset: ArrayDataset, data_dir: str | None) -> list[Path]:
    """The folders that may hold a set, first one first.

    They are ``data_dir``, the environment variable ``LIPDP_DATA``, the cache of Keras, and where
    the system's packages put the set.

    Raises:
        InvalidData: If ``data_dir`` or the variable names something that is no folder.
    """
    given = {"data.dir": data_dir, VARIABLE: os.environ.get(VARIABLE)}
    places = []
    for name, folder in given.items():
        if folder:
            places.append(Path(folder).expanduser())
            if not places[-1].is_dir():
                raise InvalidData(
                    f"{name} must be a folder that holds data sets",
                    received=folder,
                    fix="Correct the path",
                )
    return [*places, keras_cache(), *dataset.extra_places]


def locate(dataset: ArrayDataset, data_dir: str | None) -> tuple[Path, ...] | None:
    """The files of a set in the first place that has them, or None.

    Raises:
        InvalidData: As ``search_places``.
    """
    for place in search_places(dataset, data_dir):
        found = dataset.find(place)
        if found is not None:
            return found
    return None


def keras_cache() -> Path:
    """The folder that Keras keeps data sets in."""
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    return Path(home).expanduser() / "datasets"


def first_existing(place: Path, names: Iterator[str] | list[str]) -> tuple[Path, ...] | None:
    """The first of some files or folders that a place has."""
    for name in names:
        if (place / name).exists():
            return (place / name,)
    return None
