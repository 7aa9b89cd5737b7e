"""Tables from files: CSV, gzipped CSV and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from pathlib import Path

import pandas as pd

from lipdp.errors import InvalidData

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def is_table(path: str | Path) -> bool:
    """Whether the suffix is one of a table."""
    return Path(path).name.lower().endswith(TABLE_SUFFIXES)


def read_table(path: str | Path) -> pd.DataFrame:
    """Reads a table; the suffix ``.csv``, ``.csv.gz`` or ``.parquet`` says how.

    A CSV file is UTF-8 with commas and a header. Its cells stay text, without spaces around them:
    nothing is guessed, so "NA", "None" and "?" are values like any other. A schema says later which
    columns are numbers. Parquet keeps its types.

    Args:
        path: The file.

    Returns:
        At least one row and two columns, with distinct names that are text; ``attrs["file"]`` is
        the path.

    Raises:
        InvalidData: If there is no such file, or it is empty, has only a header, is cut off, has
            rows of unequal length or two columns of one name, or is not such a table.
    """
    path = Path(path)
    name = path.name.lower()
    if not path.is_file():
        raise InvalidData("There is no such file", received=str(path), fix="Check the path")
    if name.endswith((".csv", ".csv.gz")):
        frame = _read_csv(path)
    elif name.endswith(".parquet"):
        frame = _read_parquet(path)
    else:
        raise _unreadable(path, f"its suffix is none of {', '.join(TABLE_SUFFIXES)}")
    frame = _checked(frame, path)
    # A cell that does not fit the schema is found later, where only the table is at hand.
    frame.attrs["file"] = str(path)
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix.lower() == ".gz" else data).decode("utf-8-sig")
        source = io.StringIO(text, newline="")
        rows = [row for row in csv.reader(source, strict=True, skipinitialspace=True) if row]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, str(error)) from None
    if not rows:
        raise InvalidData("The file is empty", received=str(path), fix="Give a header and rows")
    header, *body = ([cell.strip() for cell in row] for row in rows)
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise _unreadable(
                path, f"row {number} has {len(row)} cells, the header has {len(header)}"
            )
    return pd.DataFrame(body, columns=header, dtype=object)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path, engine="pyarrow").reset_index(drop=True)
        _decode(frame)
        return frame.rename(columns=lambda name: str(name).strip())
    except Exception as error:
        # A damaged file can fail anywhere inside the reader, with almost any error.
        raise _unreadable(path, str(error)) from None


def _decode(frame: pd.DataFrame) -> None:
    """Pandas may decode text no sooner than it is used, where nothing names the file."""
    for name, column in frame.items():
        try:
            column.to_numpy()
        except Exception as error:
            raise ValueError(f"a cell of the column {name!r} cannot be decoded") from error


def _checked(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    names = list(frame.columns)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidData(f"Columns of {path} share a name", received=twice, fix="Rename them")
    if "" in names:
        raise InvalidData(
            f"A column of {path} has no name",
            received=names,
            fix="Name it, or write the file without its row index",
        )
    if len(names) < 2:
        raise _unreadable(path, f"it has fewer than two columns, {names}")
    if frame.empty:
        raise InvalidData(f"{path} has a header but no rows", received=names, fix="Add rows")
    return frame


def _unreadable(path: Path, why: str) -> InvalidData:
    return InvalidData(
        f"The file is not a readable table: {why}",
        received=str(path),
        fix="Give a whole UTF-8 .csv or .csv.gz with commas and a header, or a .parquet",
    )
