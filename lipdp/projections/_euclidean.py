"""Euclidean balls over all entries of a tensor, or of each of its slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.projections import _gram
from lipdp.projections._ball import RadiusBall
from lipdp.projections._norms import frobenius_norm_bound, scaled_up
from lipdp.rounding import gamma, unit_roundoff


class EuclideanBall(RadiusBall):
    """Projection on ``sqrt(sum w^2) <= radius``.

    A sum of n squares is exact up to ``gamma(n + 1)`` relative in any order, so that with the
    division by the peak and the root the computed norm times ``1 + 2 gamma(n + 8)`` is a bound.
    """

    def bound_of(self, w: np.ndarray) -> float:
        """Euclidean norm of all entries, rounded up."""
        return frobenius_norm_bound(w)

    def _norm(self, v: Any) -> Any:
        axes = self._peak_axes(v)
        square = ops.sum(ops.square(v), axis=axes, keepdims=axes is not None)
        norm = _gram.at_least_one(ops.sqrt(square))
        return norm * (1.0 + 2.0 * gamma(self._size(v) + 8, _gram.unit_of(v)))

    def _growth(self, w: Any) -> float:
        return 1.0

    def _certificate(self, w: Any) -> float:
        return 8.0 * gamma(self._size(w) + 16, unit_roundoff("float64"))

    def _size(self, w: Any) -> int:
        axes = self._peak_axes(w)
        return math.prod(int(w.shape[a]) for a in (range(len(w.shape)) if axes is None else axes))


class SliceBall(EuclideanBall):
    """Projection of each slice at a fixed index of one axis on the Euclidean ball of its entries.

    With n slices of norm at most r, ``||W||_2 <= ||W||_F <= r sqrt(n)``, attained by n equal
    columns: a smaller other side of the matrix does not help.
    """

    _axis: int

    def bound_of(self, w: np.ndarray) -> float:
        """Greatest Euclidean norm of a slice, rounded up."""
        slices = np.moveaxis(np.asarray(w), self._axis, 0)
        return max((frobenius_norm_bound(s) for s in slices), default=0.0)

    def spectral_bound(self, shape: Sequence[int]) -> float:
        """The radius times the root of the number of slices."""
        _kept_axes(shape, self._axis)
        return scaled_up(self.radius * math.sqrt(shape[self._axis]))

    def _peak_axes(self, w: Any) -> tuple[int, ...]:
        return _kept_axes(w.shape, self._axis)


def _kept_axes(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """All axes but one.

    Raises:
        InvalidValue: If there is no such axis, or no other.
    """
    rank = len(shape)
    if rank < 2 or not -rank <= axis < rank:
        raise InvalidValue(
            f"The weight has no slices along axis {axis}",
            received=tuple(shape),
            fix="Give a weight of two axes or more, this one among them",
        )
    return tuple(a for a in range(rank) if a != axis % rank)
