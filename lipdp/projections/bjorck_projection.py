"""Orthogonalisation inside the unit spectral ball."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.projections import _gram
from lipdp.projections._checks import count
from lipdp.projections._norms import spectral_norm_bound
from lipdp.projections.base import Projection
from lipdp.rounding import gamma, unit_roundoff

_START = 1.5  # below sqrt 3, where the polynomial has a root and a singular value would vanish
_SQUARINGS = 2


@final
@keras.saving.register_keras_serializable(package="lipdp")
class BjorckProjection(Projection):
    """Moves a kernel towards orthogonality and keeps ``||W||_2 <= 1``.

    The kernel is read as a matrix of shape (product of all axes but the last, last axis), with
    sides k <= l. It is divided by its proved norm if that is above 1.5, then follow Björck steps
    ``p(W) = 1.5 W - 0.5 W W^T W``. On singular values, p maps [0, 2] into [-1, 1] and fixes 1, so
    one exact step ends inside the ball.

    Rounding (N. Higham, Accuracy and Stability, section 3.5): for ``||W||_2 <= c`` and
    c >= 1, the Gram matrix is off by at most ``k gamma(l) c^2`` (plus ``8 k u c^2`` where the
    one of the unscaled matrix is used again), the product with it by ``k gamma(k) c^3``, both
    halved by the factor 0.5, the combination by ``6 sqrt(k) u c^3``, all in 2-norm. A step is
    therefore off by at most ``e(c) = 1.1 k gamma(l + 16) c^3``, and its result has norm at most
    ``1 + e(c)``, the next step's c. The last factor ``1 - slack`` covers ``e`` of the last step
    and the cast to the weight's dtype (``u`` an entry: ``sqrt(k) u`` in 2-norm).

    All this runs in float64. JAX without its 64-bit mode computes in float32, where the slack is
    0.2 % for k = l = 128 and 2 % for 512; turn on ``jax_enable_x64`` for large layers.

    Args:
        iterations: Number of steps, at least 1. Two are enough when every training step
            projects; each squares the distance to the orthogonal set.

    Guarantees:
        * The returned weight has spectral norm at most 1 as computed.
        * A weight with a non-finite entry becomes all NaN.
    """

    def __init__(self, iterations: int = 2) -> None:
        self.iterations = count("iterations", iterations)

    @property
    def norm_bound(self) -> float:
        """One."""
        return 1.0

    def spectral_bound(self, shape: Sequence[int]) -> float:
        """One."""
        return 1.0

    def bound_of(self, w: np.ndarray) -> float:
        """Spectral norm, rounded up."""
        return spectral_norm_bound(w)

    def __call__(self, w: Any) -> Any:
        """The weight inside the ball, same shape and dtype.

        Args:
            w: Weight of at least one axis, float32 or float64.

        Raises:
            InvalidValue: If the matrix is too large for a proof in the precision at hand.
        """
        w = ops.convert_to_tensor(w)
        smaller, larger = _gram.sides(w)
        v = self._steps(_gram.tall(_gram.widen(w)))
        v = v * (1.0 - self._slack(smaller, larger, _gram.unit_of(v), _gram.unit_of(w)))
        return _gram.nan_unless_finite(w, ops.cast(_gram.like(v, w), w.dtype))

    def _steps(self, w: Any) -> Any:
        v, peak = _gram.normalized(w)
        gram = _gram.product(ops.transpose(v), v)
        inverse = 1.0 / _gram.norm_from_gram(gram, int(v.shape[0]), _SQUARINGS)
        scale = ops.where(peak <= _START * inverse, peak, inverse)
        v = _step(v * scale, gram * ops.square(scale))
        for _ in range(self.iterations - 1):
            v = _step(v, _gram.product(ops.transpose(v), v))
        return v

    def _slack(self, smaller: int, larger: int, unit: float, weight_unit: float) -> float:
        error, norm = 0.0, _START + 0.01
        for _ in range(self.iterations):
            error = 1.1 * smaller * gamma(larger + 16, unit) * norm**3
            norm = 1.0 + error
            if norm > _START:
                raise InvalidValue(
                    "The kernel is too large for a proved Björck step in this precision",
                    received=(smaller, larger),
                    fix="Use a smaller layer, or allow float64 in the backend",
                )
        certificate = 8 * smaller * gamma(larger + 16, unit_roundoff("float64"))
        return error + certificate + math.sqrt(smaller) * (2 * weight_unit + 8 * unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {"iterations": self.iterations}


def _step(v: Any, gram: Any) -> Any:
    return 1.5 * v - 0.5 * _gram.product(v, gram)
