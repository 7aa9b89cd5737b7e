"""Fetching a data set with Keras' own downloader, into Keras' own cache."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import keras

from lipdp.datasets import ArrayDataset, Download
from lipdp.datasets.locate import VARIABLE, keras_cache
from lipdp.errors import InvalidData


def download(dataset: ArrayDataset) -> None:
    """Fetches the files of a set that are not in Keras' cache, and checks their hashes.

    Args:
        dataset: Knows where its files are.

    Raises:
        InvalidData: If a file cannot be fetched, or is another than the official one.
    """
    for file in dataset.downloads:
        try:
            # Its progress must not get between the lines of a program that reads our output.
            with contextlib.redirect_stdout(sys.stderr):
                _fetch(file)
        except Exception as error:
            # Keras raises a plain Exception where there is no network.
            raise InvalidData(
                f"The data set {dataset.name!r} is not on this computer, and could not be "
                f"downloaded: {error}",
                received=file.url,
                fix=f"Fetch {file.url} yourself and pass its folder as --data-dir FOLDER "
                f"(or in the environment variable {VARIABLE}); no network is needed then",
            ) from error


def _fetch(file: Download) -> None:
    # By the cache's whole path: Keras itself would turn to another where it cannot write.
    keras.utils.get_file(
        file.name,
        origin=file.url,
        file_hash=file.sha256,
        cache_dir=str(keras_cache().parent),
        cache_subdir=str(Path("datasets") / file.subfolder),
        extract=file.extract,
    )
