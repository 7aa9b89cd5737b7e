"""The training rows: as arrays that can be indexed at random, and the units that they belong to."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pandas as pd

from lipdp.certificates.certify import is_read_by_rows
from lipdp.errors import InvalidData, InvalidValue, UnsafeSetting
from lipdp.privacy.phase import is_number
from lipdp.privacy.units import number_units

#: Steps of the search for a common byte, which is short unless axes were laid over each other.
#: Some of NumPy's annotations have room for its two named numbers only.
_SEARCH: Any = 10**6
_IN_MEMORY = (np.ndarray, pd.DataFrame, pd.Series)


def as_rows(name: str, values: Any) -> np.ndarray:
    """Checks that ``values`` is an array of rows; what is mapped or read by rows stays where it is.

    Raises:
        InvalidData: If it is no array, a stream, or a nest of arrays.
    """
    _check_kind(name, values)
    as_it_is = isinstance(values, np.ndarray) or is_read_by_rows(values)
    try:
        rows = values if as_it_is else np.asarray(values)
    except ValueError as error:
        raise InvalidData(
            f"{name} makes no array: its rows have different shapes",
            received=type(values).__name__,
            fix="Pass one array with as many numbers in each row",
        ) from error
    if not rows.shape and hasattr(values, "__iter__"):
        raise InvalidData(
            f"{name} is a stream, which brings inputs and targets together",
            received=type(values).__name__,
            fix="Pass the stream of (x, y) as x, and no y",
        )
    texts = name != "y" and rows.dtype.kind in "SUMm"
    if len(rows.shape) == 0 or rows.dtype == object or texts:
        raise InvalidData(
            f"{name} must be a numeric array with one row an example",
            received=f"shape {rows.shape}, dtype {rows.dtype}",
            fix="Pass numbers; lipdp.preprocessing encodes the columns of a table",
        )
    return rows


def _check_kind(name: str, values: Any) -> None:
    """Refuses what is no array, each with its own way out."""
    if isinstance(values, keras.utils.PyDataset):
        raise InvalidData(
            "A PyDataset chooses the batches itself, but privacy is accounted for batches that fit"
            " draws",
            received=type(values).__name__,
            fix="Pass x and y as arrays; what is too large for memory may be a numpy.memmap, or an"
            " object with shape, dtype, len and indexing that reads rows when asked",
        )
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):
        raise InvalidData(
            f"{name} is a sparse matrix, and rows are drawn from dense arrays",
            received=f"{type(values).__name__} of shape {values.shape}",
            fix=f"Pass {name}.toarray(), or an object with shape, dtype, len and indexing that"
            " makes the rows dense when asked",
        )
    if isinstance(values, (dict, tuple)) or values is None or not hasattr(values, "__len__"):
        raise InvalidData(
            f"{name} must be one array of rows, which can be sampled at random",
            received=type(values).__name__,
            fix="Pass a NumPy array (a stream cannot be Poisson-sampled)",
        )


def as_inputs(x: Any, num_inputs: int) -> Any:
    """The rows of each input of a model: one array, or a tuple or dict of them.

    Keras' own readers of batches take no list.

    Raises:
        InvalidData: If there are not ``num_inputs`` arrays of rows, as many rows each.
    """
    if num_inputs == 1:
        return as_rows("x", x)
    if not isinstance(x, (dict, list, tuple)) or len(x) != num_inputs:
        raise InvalidData(
            f"The model has {num_inputs} inputs, and x must be a list or dict of that many arrays",
            received=type(x).__name__,
        )
    if isinstance(x, dict):
        rows: Any = {name: as_rows(f"x[{name!r}]", values) for name, values in x.items()}
    else:
        rows = tuple(as_rows(f"x[{i}]", values) for i, values in enumerate(x))
    lengths = [len(values) for values in keras.tree.flatten(rows)]
    if len(set(lengths)) != 1:
        raise InvalidData("The inputs have different numbers of rows", received=lengths)
    return rows


def number_of_rows(x: Any) -> int:
    """Rows of one array or of a nest of arrays."""
    return len(keras.tree.flatten(x)[0])


def check_pair(x: Any, y: np.ndarray) -> None:
    """Refuses inputs and targets of different lengths."""
    if number_of_rows(x) != len(y):
        raise InvalidData(
            "x and y have different numbers of rows", received=(number_of_rows(x), len(y))
        )


def split_validation(
    x: Any, y: np.ndarray, fraction: float
) -> tuple[Any, np.ndarray, tuple[Any, np.ndarray]]:
    """The last ``fraction`` of the rows become validation data, as in Keras."""
    if not 0.0 < fraction < 1.0:
        raise InvalidData("validation_split must lie between 0 and 1", received=fraction)
    start = math.floor(len(y) * (1.0 - fraction))
    first = keras.tree.map_structure(lambda rows: rows[:start], x)
    last = keras.tree.map_structure(lambda rows: rows[start:], x)
    return first, y[:start], (last, y[start:])


def check_held_out(training: Any, validation: Any) -> None:
    """Refuses validation data that lie in the arrays of the training rows.

    Parts of one array that have no row in common are different data; a copy cannot be told from
    other rows.

    Args:
        training: Inputs and targets in any nest, or a stream.
        validation: The same for validation, or None.

    Raises:
        UnsafeSetting: If an array or stream is used for both.
    """
    known = [one for one in keras.tree.flatten(training) if _is_data(one)]
    for held_out in filter(_is_data, keras.tree.flatten(validation)):
        if any(_are_shared(held_out, one) for one in known):
            raise UnsafeSetting(
                "validation_data has rows of the training data, and its metrics have no noise",
                received=f"{type(held_out).__name__} of shape {getattr(held_out, 'shape', None)}",
                fix="Pass rows of other people, as in fit(x[:800], y[:800],"
                " validation_data=(x[800:], y[800:]))",
            )


def _is_data(one: Any) -> bool:
    """Keras' trees take lists apart, down to numbers, of which equal ones are the same object."""
    looks = hasattr(one, "shape") or hasattr(one, "__iter__")
    return looks and not isinstance(one, (str, bytes, np.generic))


def _are_shared(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if not isinstance(one, _IN_MEMORY) or not isinstance(other, _IN_MEMORY):
        return False
    arrays = np.asarray(one), np.asarray(other)
    try:
        return np.shares_memory(*arrays, max_work=_SEARCH)
    except np.exceptions.TooHardError:
        return True


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
