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
    """Sorts the halves of the last axis against each other, in descending order.

    XLA reads parts of an array for nothing. TensorFlow copies them: whole arrays take a third less
    of its time there.
    """
    if isinstance(x, keras.KerasTensor) or keras.backend.backend() != "tensorflow":
        return _sort_parts(x)
    pairs = _Pairs((2, x.shape[-1] // 2), 0)
    return pairs.sort(x, gets_larger=pairs.number == 0)


def sort_neighbours(x: Any) -> Sorted:
    """Sorts pairs that lie side by side on the last axis, in ascending order."""
    pairs = _Pairs((x.shape[-1] // 2, 2), 1)
    return pairs.sort(x, gets_larger=pairs.number == 1)


def _sort_parts(x: Any) -> Sorted:
    a, b = ops.split(x, 2, axis=-1)
    in_order = a > b

    def back(u: Any) -> Any:
        c, d = ops.split(u, 2, axis=-1)
        return _joined(c, d, in_order)

    return _joined(a, b, in_order), back


def _joined(a: Any, b: Any, in_order: Any) -> Any:
    return ops.concatenate((ops.where(in_order, a, b), ops.where(in_order, b, a)), axis=-1)


@dataclass(frozen=True)
class _Pairs:
    """Where pairs lie on the last axis.

    Attributes:
        grid: Shape of the last axis with an axis of size 2.
        axis: That axis of the grid.
    """

    grid: tuple[int, int]
    axis: int

    @property
    def number(self) -> np.ndarray:
        """Of each channel in its pair, 0 or 1."""
        return np.indices(self.grid)[self.axis].ravel()

    def sort(self, x: Any, gets_larger: np.ndarray) -> Sorted:
        """Exchanges both of a pair or neither: at both places the same numbers are compared.

        Args:
            x: Any tensor.
            gets_larger: Whether a channel gets the larger of its pair.
        """
        other = self._exchanged(x)
        is_wrong = ops.logical_or(
            ops.logical_and(other > x, gets_larger), ops.logical_and(x > other, ~gets_larger)
        )
        return (
            ops.where(is_wrong, other, x),
            lambda u: ops.where(is_wrong, self._exchanged(u), u),
        )

    def _exchanged(self, x: Any) -> Any:
        """The other one of its pair in each place."""
        if isinstance(x, keras.KerasTensor):
            # Whose shape may not be known.
            places = np.arange(math.prod(self.grid)).reshape(self.grid)
            return ops.take(x, np.flip(places, self.axis).ravel(), axis=-1)
        pairs = ops.reshape(x, (-1, *self.grid))
        return ops.reshape(ops.flip(pairs, axis=1 + self.axis), ops.shape(x))
