"""Sorting pairs of entries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.layers._backward import with_backward

Sorted = tuple[Any, Callable[[Any], Any]]


def with_permutation(x: Any, sort: Callable[[Any], Sorted]) -> Any:
    """A sorted tensor, whose derivative is the permutation that sorted it.

    It is one at ties too, where the derivatives of ``minimum`` and ``maximum`` may both point at
    the same entry, a Jacobian of norm sqrt 2. Selecting by one mask cannot, and it is exact where
    ``b - relu(b - c)`` rounds. Backward the same mask selects once more: half of what automatic
    differentiation makes of two selections.

    Args:
        x: Any tensor.
        sort: Maps x to the sorted tensor and the inverse of the permutation.
    """
    if isinstance(x, keras.KerasTensor):
        # A graph of plain operations, for export.
        return sort(x)[0]
    return with_backward(sort, x)


def sort_halves(x: Any) -> Sorted:
    """Sorts the halves of the last axis against each other, in descending order."""
    return _Pairs((2, x.shape[-1] // 2), axis=0, larger=0).sort(x)


def sort_neighbours(x: Any) -> Sorted:
    """Sorts pairs that lie side by side on the last axis, in ascending order."""
    return _Pairs((x.shape[-1] // 2, 2), axis=1, larger=1).sort(x)


@dataclass(frozen=True)
class _Pairs:
    """Where pairs lie on the last axis.

    A pair is compared once, and one bit decides at both of its places: whether a processor takes
    subnormal numbers for zero may differ from thread to thread, and two comparisons with it.

    Attributes:
        grid: Shape of the last axis with an axis of size 2.
        axis: That axis of the grid.
        larger: Where on it the larger one goes, 0 or 1.
    """

    grid: tuple[int, int]
    axis: int
    larger: int

    def sort(self, x: Any) -> Sorted:
        """The sorted tensor, and the inverse of the permutation.

        XLA reads parts of an array for nothing. TensorFlow copies them: whole arrays take a third
        less of its time there.
        """
        if isinstance(x, keras.KerasTensor) or keras.backend.backend() == "tensorflow":
            return self._sort_whole(x)
        return self._sort_parts(x)

    def _sort_parts(self, x: Any) -> Sorted:
        first, second = self._parts(x)
        is_wrong = first > second if self.larger else second > first

        def exchanged(u: Any) -> Any:
            one, other = self._parts(u)
            both = (ops.where(is_wrong, other, one), ops.where(is_wrong, one, other))
            return ops.reshape(ops.stack(both, axis=self._place), ops.shape(u))

        return exchanged(x), exchanged

    @property
    def _place(self) -> int:
        return self.axis - 2

    def _parts(self, x: Any) -> list[Any]:
        return ops.unstack(ops.reshape(x, (*ops.shape(x)[:-1], *self.grid)), 2, axis=self._place)

    def _sort_whole(self, x: Any) -> Sorted:
        other = self._other(x)
        gets_larger = (np.indices(self.grid)[self.axis] == self.larger).ravel()
        is_wrong = ops.logical_and(other > x, gets_larger)
        # At the place of the smaller one it is False so far.
        apart = self.grid[1] if self.axis == 0 else 1
        way = apart if self.larger == 0 else -apart
        is_wrong = ops.logical_or(is_wrong, ops.roll(is_wrong, way, axis=-1))
        return ops.where(is_wrong, other, x), lambda u: ops.where(is_wrong, self._other(u), u)

    def _other(self, x: Any) -> Any:
        """The other one of its pair in each place."""
        if isinstance(x, keras.KerasTensor):
            # Whose shape may not be known.
            places = np.arange(math.prod(self.grid)).reshape(self.grid)
            return ops.take(x, np.flip(places, self.axis).ravel(), axis=-1)
        pairs = ops.reshape(x, (-1, *self.grid))
        return ops.reshape(ops.flip(pairs, axis=1 + self.axis), ops.shape(x))
