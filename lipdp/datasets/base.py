"""What a data set is: rows, and public facts about them."""

from __future__ import annotations

import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lipdp.datasets.tables import read_table
from lipdp.errors import InvalidData


def damaged(path: Path | str, why: object, form: str) -> InvalidData:
    """The error for a file that is cut off, damaged or of another form.

    Args:
        path: The file.
        why: What the reader said.
        form: What the file should be.
    """
    # zipfile raises the first for a password, the second for what it cannot decrypt or unpack.
    locked = type(why) in (RuntimeError, NotImplementedError)
    return InvalidData(
        f"The file is damaged, or no {form}: {_words(why)}",
        received=str(path),
        fix="Write the archive without a password, and with the usual compression (deflate)"
        if locked
        else "Replace it by a whole file",
    )


def _words(why: object) -> str:
    """The first line: NumPy's next one advises to trust the file and to allow pickles."""
    if isinstance(why, KeyError | SyntaxError | tokenize.TokenError) and why.args:
        # As text they have quotes, or a place in a text that nobody sees.
        why = why.args[0]
    return str(why).strip().partition("\n")[0].rstrip(":") or type(why).__name__


DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Dataset:
    """A registered data set.

    Attributes:
        name: The registered name.
        title: The name in words.
        licence: Under which licence the rows are shared.
        source: Who made it and where it is from.
        schema_path: The TOML of its public facts; ``lipdp.preprocessing.load_encoding`` reads it.
    """

    name: str
    title: str
    licence: str
    source: str
    schema_path: Path

    @property
    def place(self) -> str:
        """Where the rows come from."""
        return "in the package"

    def schema(self) -> str:
        """The public facts as TOML; ``lipdp.preprocessing.encoding_from_toml`` reads it."""
        return self.schema_path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class TableDataset(Dataset):
    """A table in the package.

    Attributes:
        table_path: The file of the rows.
    """

    table_path: Path

    def load(self) -> pd.DataFrame:
        """All rows, a column each as text.

        Raises:
            InvalidData: If the file is missing or broken.
        """
        return read_table(self.table_path)


@dataclass(frozen=True)
class Samples:
    """Raw rows and labels, as a file holds them.

    Attributes:
        x: Array or indexable with ``shape`` and ``dtype``, one row an example.
        y: Labels, one a row; None where only rows to predict are there.
        x_test: Held-out rows, where whoever made the data says which.
        y_test: Their labels.
    """

    x: Any
    y: np.ndarray | None
    x_test: Any = None
    y_test: np.ndarray | None = None


@dataclass(frozen=True)
class Download:
    """A file of the official source, as Keras fetches and caches it.

    Attributes:
        url: Where it is.
        name: Its name in the cache.
        sha256: Hash of the file, where the source has published one.
        subfolder: Folder below ``datasets`` in Keras' cache.
        extract: Whether it is an archive; its content is then in the folder ``name``.
    """

    url: str
    name: str
    sha256: str | None = None
    subfolder: str = ""
    extract: bool = False


@dataclass(frozen=True)
class ArrayDataset(Dataset):
    """Arrays in files that are not part of the package.

    Attributes:
        downloads: What the official source offers.
        find: The paths of the set in a folder, or None if it is not there.
        read: Reads what ``find`` found.
        extra_places: More folders that may hold it.
    """

    downloads: tuple[Download, ...]
    find: Callable[[Path], tuple[Path, ...] | None]
    read: Callable[[tuple[Path, ...]], Samples]
    extra_places: tuple[Path, ...] = ()

    @property
    def place(self) -> str:
        """Where the rows come from."""
        return self.downloads[0].url
