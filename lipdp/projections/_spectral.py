"""Spectral balls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from keras import ops

from lipdp.projections import _gram
from lipdp.projections._ball import RadiusBall
from lipdp.projections._norms import spectral_norm_bound
from lipdp.rounding import gamma, unit_roundoff

_SQUARINGS = 7  # overshoot at most k^(1/512): 1.2 % for k = 512


class SpectralBall(RadiusBall):
    """Keeps a kernel inside ``||W||_2 <= radius``, by default by one scalar factor.

    The matrix has shape (product of all axes but the last, last axis), with sides k <= l. Its norm
    is the proved bound of Gram iteration.
    """

    def bound_of(self, w: np.ndarray) -> float:
        """Spectral norm, rounded up."""
        return spectral_norm_bound(w)

    def _norm(self, v: Any) -> Any:
        smaller, larger = _gram.sides(v)
        v = _gram.tall(v)
        bound = _gram.norm_from_gram(_gram.product(ops.transpose(v), v), larger, _SQUARINGS)
        return bound * (1.0 + math.sqrt(smaller) * 4 * _gram.unit_of(v))

    def _growth(self, w: Any) -> float:
        return math.sqrt(_gram.sides(w)[0])

    def _certificate(self, w: Any) -> float:
        smaller, larger = _gram.sides(w)
        return 8.0 * smaller * gamma(larger + 16, unit_roundoff("float64"))
