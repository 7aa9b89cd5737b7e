"""Public facts about a table, and the encoding that uses nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import model_validator

from lipdp.config import parse_toml, read_toml, write_toml
from lipdp.errors import InvalidData
from lipdp.preprocessing._scale import root_below, unit_scale
from lipdp.preprocessing.cells import as_text
from lipdp.preprocessing.columns import CategoryColumn, Column, NumberColumn, codes_of
from lipdp.preprocessing.facts import Classes, PublicFacts
from lipdp.preprocessing.origin import about


class Schema(PublicFacts):
    """What is publicly known about a table; rows are encoded by it alone.

    Nothing is learned from rows: the code of a row depends on this row and the schema only, so
    encoding costs no privacy, as long as the schema was not written by looking at private rows.

    A row becomes, for each used column in order, a block of norm at most 1 (a number in [0, 1] or a
    one-hot code), then a constant 1; all times ``scale``. With k used columns its norm is at most
    ``scale * sqrt(k + 1) <= 1``.

    Attributes:
        target: Name of the column to predict.
        classes: Its values, at least two, compared as text; the position is the class id.
        columns: The other columns by name, as number, category or ignored.

    Raises:
        InvalidConfig: If a key is unknown, missing or blank, or a value is outside its domain.
    """

    target: str
    classes: Classes
    columns: dict[str, Column]

    @model_validator(mode="after")
    def _usable(self) -> Schema:
        if self.target in self.columns:
            raise ValueError(f"the target {self.target!r} must not be among the columns")
        if not self._used:
            raise ValueError("every column is ignored; use at least one")
        return self

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Reads a schema from TOML.

        Raises:
            InvalidConfig: If it is not TOML or not a whole schema.
        """
        return cls(**parse_toml(text, "the schema"))

    def to_toml(self) -> str:
        """TOML that ``from_toml`` reads back to an equal schema."""
        tables: dict[str, Any] = self.model_dump(exclude={"columns"})
        columns = {name: c.model_dump(exclude_defaults=True) for name, c in self.columns.items()}
        return write_toml({**tables, "columns": columns})

    @property
    def _used(self) -> dict[str, NumberColumn | CategoryColumn]:
        return {
            name: column
            for name, column in self.columns.items()
            if isinstance(column, NumberColumn | CategoryColumn)
        }

    @property
    def scale(self) -> float:
        """The public factor of every row, ``1 / sqrt(k + 1)`` for k used columns."""
        return unit_scale(len(self._used) + 1)

    @property
    def min_norm(self) -> float:
        """Lower bound of the norm of every encoded row, from one-hot codes and the constant.

        Their squares sum to ``m * scale^2`` exactly, for m - 1 columns that are one-hot without
        unknown values; the root is rounded down.
        """
        units = 1 + sum(column.always_unit for column in self._used.values())
        return root_below(Fraction(self.scale) ** 2 * units)

    @property
    def max_norm(self) -> float:
        """Upper bound of the norm of an encoded row."""
        return 1.0

    @property
    def unit(self) -> str:
        """In which certified radii are stated."""
        return "L2 distance of encoded rows (an encoded row has norm at most 1)"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an encoded sample."""
        return (self.num_features,)

    @property
    def constants(self) -> Mapping[int, float]:
        """Features that have one public value in every row: the last."""
        return {self.num_features - 1: self.scale}

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded features, in order; the last is the constant."""
        blocks = [column.feature_names(name) for name, column in self._used.items()]
        return [*(feature for block in blocks for feature in block), "constant"]

    @property
    def num_features(self) -> int:
        """Length of an encoded row."""
        return len(self.feature_names)

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """Encodes rows; columns that the schema ignores or does not know may be there or not.

        Args:
            frame: A table, n rows.

        Returns:
            Shape (n, num_features), float64; the norm of a row is in [min_norm, 1].

        Raises:
            InvalidData: If a column is missing or a cell does not fit; the message gives the
                column, the row (the first is 1) and the value.
        """
        with self.naming(_file_of(frame)):
            _require(frame, list(self._used))
            blocks = [column.encode(name, frame[name]) for name, column in self._used.items()]
        return np.hstack([*blocks, np.ones((len(frame), 1))]) * self.scale

    def encode_target(self, frame: pd.DataFrame) -> np.ndarray:
        """The class ids of the rows.

        Args:
            frame: A table, n rows.

        Returns:
            Shape (n,), int64, each in 0 .. number of classes - 1; at least two occur.

        Raises:
            InvalidData: If the target is missing, a label is unknown, or all rows have one label.
        """
        with self.naming(_file_of(frame)):
            return self._ids(frame)

    def _ids(self, frame: pd.DataFrame) -> np.ndarray:
        # Where the target is missing, so may be other columns: all are told at once.
        lacks = isinstance(frame, pd.DataFrame) and self.target not in frame.columns
        _require(frame, [self.target, *(self._used if lacks else ())])
        labels = frame[self.target]
        ids = codes_of(labels, self.classes)
        unknown = np.flatnonzero(ids < 0)
        if unknown.size:
            raise InvalidData(
                f"Target {self.target!r}, row {unknown[0] + 1}: the label is not in the schema's "
                f"classes {list(self.classes)}",
                received=as_text(labels.iloc[unknown[0]]),
                fix="Correct it, drop the row, or add it to the classes",
            )
        if len(np.unique(ids)) < 2:
            raise InvalidData(
                f"Target {self.target!r}: all {len(ids)} rows have the same label",
                received=self.classes[ids[0]],
                fix="Give rows of at least two classes",
            )
        return ids


def load_schema(path: str | Path) -> Schema:
    """Reads a schema from a TOML file.

    Raises:
        InvalidConfig: If the file cannot be read or is not a whole schema.
    """
    tables = read_toml(Path(path))
    with about(f"Schema {path}"):
        return Schema(**tables).read_from(path)


def _file_of(frame: pd.DataFrame) -> str:
    """The file of a table, or "" if none is known."""
    return str(getattr(frame, "attrs", {}).get("file", ""))


def _require(frame: pd.DataFrame, names: list[str]) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise InvalidData("A table must be a pandas DataFrame", received=type(frame).__name__)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidData(
            f"Columns of the schema are missing; the table has {list(map(str, frame.columns))}",
            received=missing,
            fix="Rename the table's columns, or correct the schema",
        )
    twice = [name for name in names if list(frame.columns).count(name) > 1]
    if twice:
        raise InvalidData("Columns share a name", received=twice, fix="Rename them")
    if not len(frame):
        raise InvalidData("The table has no rows", received=names, fix="Give at least one row")
