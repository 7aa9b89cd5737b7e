"""What is protected: single rows, or all rows of one person."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.privacy.phase import is_number
from lipdp.privacy.units import number_units


class Units:
    """The units that are drawn, each with the rows that it contributes.

    Args:
        rows: Row numbers, those of one unit side by side.
        starts: Where each unit begins in ``rows``, and the length of ``rows`` at the end.
        most_rows: Most rows m of a unit, public.
        word: What a unit is called.
    """

    def __init__(
        self, rows: np.ndarray, starts: np.ndarray, most_rows: int = 1, word: str = "row"
    ) -> None:
        self._rows, self._starts = rows, starts
        self.most_rows = most_rows
        self.word = word

    def __len__(self) -> int:
        return len(self._starts) - 1

    def rows_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of some units.

        Args:
            units: Numbers of units, shape (k,).

        Returns:
            Row numbers, and for each the place of its unit in ``units`` times m plus its own place
            in the unit.
        """
        counts = self._starts[units + 1] - self._starts[units]
        place = np.repeat(np.arange(len(units)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._rows[self._starts[units][place] + within], place * self.most_rows + within


def single_rows(count: int) -> Units:
    """Each row is a unit of its own."""
    return Units(np.arange(count), np.arange(count + 1))


def grouped_rows(
    groups: Any, most_rows: int, seed: int | None = None, *, count: int | None = None
) -> Units:
    """Each group is a unit; of a larger one a uniformly random part of m rows stays.

    The rows that stay are chosen within a group alone, so a group that is added or removed changes
    no other.

    Args:
        groups: The group of each row, shape (N,), as in ``number_units``.
        most_rows: Most rows m of a group.
        seed: Makes the choice reproducible, and the run not private.
        count: Number of rows N, if it is known from elsewhere.

    Raises:
        InvalidData: If groups are not ids of one kind, without gaps.
        InvalidValue: If m is not a positive whole number.
    """
    if not is_number(most_rows) or most_rows != int(most_rows) or most_rows < 1:
        raise InvalidValue("max_examples_per_user must be at least 1", received=most_rows)
    ids = number_units(groups, count)
    order = np.random.default_rng(seed).permutation(len(ids))
    rows = order[np.argsort(ids[order], kind="stable")]
    counts = np.bincount(ids)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.concatenate([[0], np.cumsum(np.minimum(counts, most_rows))])
    return Units(rows[within < most_rows], starts, int(most_rows), "user")
