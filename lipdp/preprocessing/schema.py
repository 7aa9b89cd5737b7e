"""Public facts about a table, and the encoding that uses nothing else."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from lipdp.config import Section, parse_toml, read_toml, write_toml
from lipdp.errors import InvalidData
from lipdp.preprocessing.facts import Classes, Label, Number, PublicFacts, about
from lipdp.preprocessing.values import as_text, numbers, root_below, texts, unit_scale


class NumberColumn(Section):
    """A number, clipped to a public range and scaled to [0, 1], or cut into public intervals.

    Attributes:
        range: Lowest and highest value; what lies outside is moved to the nearer end.
        scale: ``"log"`` takes ``log(1 + value - lowest)`` before scaling.
        bins: Increasing cut points inside the range. If there are any, the column becomes the
            one-hot code of the interval (each closed on the left) instead of the scaled number.
    """

    kind: Literal["number"]
    range: tuple[Number, ...] = ()
    scale: Literal["linear", "log"] = "linear"
    bins: tuple[Number, ...] = ()

    @model_validator(mode="after")
    def _public_range(self) -> NumberColumn:
        if not self.range:
            raise ValueError("its range is blank; write range = [lowest, highest], a public fact")
        if len(self.range) != 2 or not 0 < self.range[1] - self.range[0] < math.inf:
            raise ValueError(f"its range must be [lowest, highest], not {list(self.range)}")
        edges = [self.range[0], *self.bins, self.range[1]]
        if any(a >= b for a, b in itertools.pairwise(edges)):
            raise ValueError("its bins must increase and lie inside the range")
        if self.bins and self.scale != "linear":
            raise ValueError("it has bins and a scale; leave one of them out")
        return self

    @property
    def always_unit(self) -> bool:
        """Whether every row of the block has norm exactly 1."""
        return bool(self.bins)

    def feature_names(self, name: str) -> list[str]:
        """Names of the block's features."""
        if not self.bins:
            return [name]
        edges = [self.range[0], *self.bins, self.range[1]]
        ends = [*(")" for _ in self.bins), "]"]
        pairs = itertools.pairwise(edges)
        return [f"{name} in [{a:g}, {b:g}{end}" for (a, b), end in zip(pairs, ends, strict=True)]

    def encode(self, name: str, cells: pd.Series) -> np.ndarray:
        """The block, shape (n, features), entries in [0, 1].

        Raises:
            InvalidData: If a cell is not a finite number.
        """
        low, high = self.range
        values = np.clip(self._finite(name, cells), low, high)
        if self.bins:
            return np.eye(len(self.bins) + 1)[np.searchsorted(self.bins, values, side="right")]
        shifted, width = values - low, high - low
        if self.scale == "log":
            shifted, width = np.log1p(shifted), math.log1p(width)
        return np.clip(shifted / width, 0.0, 1.0)[:, None]

    def _finite(self, name: str, cells: pd.Series) -> np.ndarray:
        values = numbers(cells)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            cell = cells.iloc[bad[0]]
            what = "an empty cell" if as_text(cell) == "" else "no finite number"
            raise InvalidData(
                f"Column {name!r}, row {bad[0] + 1}: {what} in a number column",
                received=cell,
                fix='Fill it in, drop the row, or make the column kind = "category" or "ignore"',
            )
        return values


class CategoryColumn(Section):
    """One of a public list of values, as a one-hot code.

    Attributes:
        categories: Every value that can occur, compared as text. An empty cell is the value "".
        allow_unknown: Whether another value is a block of zeros instead of an error.
    """

    kind: Literal["category"]
    categories: tuple[Label, ...] = ()
    allow_unknown: bool = False

    @model_validator(mode="after")
    def _public_list(self) -> CategoryColumn:
        if not self.categories:
            raise ValueError(
                'its categories are blank; write categories = ["a", "b"], every value that can '
                "occur, from public knowledge"
            )
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("its categories name a value twice")
        return self

    @property
    def always_unit(self) -> bool:
        """Whether every row of the block has norm exactly 1."""
        return not self.allow_unknown

    def feature_names(self, name: str) -> list[str]:
        """Names of the block's features."""
        return [f"{name}={value}" for value in self.categories]

    def encode(self, name: str, cells: pd.Series) -> np.ndarray:
        """The block, shape (n, features), entries 0 or 1.

        Raises:
            InvalidData: If a cell is not in the list and unknown values are not allowed.
        """
        codes = codes_of(cells, self.categories)
        unknown = np.flatnonzero(codes < 0)
        if unknown.size and not self.allow_unknown:
            raise self._unknown(name, int(unknown[0]), as_text(cells.iloc[unknown[0]]))
        # Code -1 takes the last row, which is zero.
        return np.eye(len(self.categories) + 1, len(self.categories))[codes]

    def _unknown(self, name: str, row: int, text: str) -> InvalidData:
        close = difflib.get_close_matches(text, self.categories, n=1)
        what = "an empty cell" if text == "" else "a value that is not in the schema's categories"
        return InvalidData(
            f"Column {name!r}, row {row + 1}: {what}" + (f" (near: {close[0]!r})" if close else ""),
            received=text,
            fix="Correct it, add it to the categories, or set allow_unknown = true",
        )


class IgnoreColumn(Section):
    """A column that is not used."""

    kind: Literal["ignore"]


Column = Annotated[NumberColumn | CategoryColumn | IgnoreColumn, Field(discriminator="kind")]


def codes_of(cells: pd.Series, values: tuple[str, ...]) -> np.ndarray:
    """Position of each cell's text in ``values``, shape (n,); -1 if it is not there."""
    positions = {value: position for position, value in enumerate(values)}
    return np.array([positions.get(text, -1) for text in texts(cells)], dtype=np.int64)


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
