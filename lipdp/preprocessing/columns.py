"""How one column of a table becomes a block of features, by public facts only.

Every row of a block has Euclidean norm at most 1.
"""

from __future__ import annotations

import difflib
import itertools
import math
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from lipdp.config import Section
from lipdp.errors import InvalidData
from lipdp.preprocessing.cells import as_text, numbers, texts
from lipdp.preprocessing.facts import Label, Number


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
