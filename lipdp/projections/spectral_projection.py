"""The spectral ball, without orthogonality."""

from __future__ import annotations

import math
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.projections import _gram
from lipdp.projections._ball import RadiusBall
from lipdp.projections._norms import spectral_norm_bound
from lipdp.rounding import gamma, unit_roundoff

_SQUARINGS = 7  # overshoot at most k^(1/512): 1.2 % for k = 512


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralProjection(RadiusBall):
    """Keeps a kernel, read as a matrix, inside ``||W||_2 <= radius`` by one scalar factor.

    The matrix has shape (product of all axes but the last, last axis). The norm is the proved
    bound of Gram iteration; power iteration would give a lower bound.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside the ball as computed.
        * A weight with a non-finite entry becomes all NaN.
    """

    def bound_of(self, w: np.ndarray) -> float:
        """Spectral norm, rounded up."""
        return spectral_norm_bound(w)

    def _norm(self, v: Any) -> Any:
        smaller, larger = _gram.sides(v)
        v = ops.reshape(v, (-1, v.shape[-1]))
        v = v if v.shape[0] == larger else ops.transpose(v)
        bound = _gram.norm_from_gram(_gram.product(ops.transpose(v), v), larger, _SQUARINGS)
        return bound * (1.0 + math.sqrt(smaller) * 4 * _gram.unit_of(v))

    def _growth(self, w: Any) -> float:
        return math.sqrt(_gram.sides(w)[0])

    def _certificate(self, w: Any) -> float:
        smaller, larger = _gram.sides(w)
        return 8.0 * smaller * gamma(larger + 16, unit_roundoff("float64"))
