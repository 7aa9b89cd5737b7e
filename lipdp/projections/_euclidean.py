"""The Euclidean ball over all entries of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from lipdp.projections import _gram
from lipdp.projections._ball import RadiusBall
from lipdp.projections._norms import frobenius_norm_bound
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
        norm = _gram.at_least_one(ops.sqrt(ops.sum(ops.square(v))))
        return norm * (1.0 + 2.0 * gamma(_size(v) + 8, _gram.unit_of(v)))

    def _growth(self, w: Any) -> float:
        return 1.0

    def _certificate(self, w: Any) -> float:
        return 8.0 * gamma(_size(w) + 16, unit_roundoff("float64"))


def _size(w: Any) -> int:
    return int(np.prod(w.shape, dtype=int))
