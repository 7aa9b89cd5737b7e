"""Almost-orthogonal rescaling inside the spectral ball."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.projections import _gram
from lipdp.projections._spectral import SpectralBall
from lipdp.rounding import gamma


@final
@keras.saving.register_keras_serializable(package="lipdp")
class AOLProjection(SpectralBall):
    """Keeps a kernel, read as a matrix, inside ``||W||_2 <= radius`` by one factor a column.

    The matrix has shape (product of all axes but the last, last axis). A weight whose proved norm
    (Gram iteration) is at most the radius stays as it is; so does a result that is projected again,
    unless its norm is within about 1 % of the radius. Any other becomes ``radius W diag(d)``,
    ``d_i = (sum_j |P_ij|)^(-1/2)`` with ``P = W^T W``, and 0 for a zero column; if there are more
    columns than rows, the rows are rescaled in this way instead. A matrix with orthogonal columns
    gets columns of norm ``radius``; columns can grow.

    Proof (B. Prach, C. Lampert, Almost-Orthogonal Layers, ECCV 2022, Theorem 1): for ``s_i >= sum_j
    |P_ij|`` the symmetric ``diag(s) - P`` is diagonally dominant with a diagonal of at least 0, so
    ``P <= diag(s)`` and, with ``d = s^(-1/2)``, ``diag(d) P diag(d) <= I``. A transpose has the
    same norm.

    Rounding: the computed P is off by ``gamma(l) (|W|^T |W|)_ij``, whose row sums ``|W|^T (|W| 1)``
    are added to s, as well as the products that underflow. They matter for columns shorter than
    about ``gamma(l)`` times the others, which are rescaled less.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside the ball as computed.
        * A weight with a non-finite entry becomes all NaN.
    """

    def _shrunk(self, v: Any, norm: Any) -> Any:
        matrix = _gram.tall(v)
        return _gram.like(matrix / ops.sqrt(_row_sums(matrix)), v)


def _row_sums(v: Any) -> Any:
    """Above ``sum_j |V^T V|_ij``, and above 0, for V of shape (l, k) with entries in [-1, 1]."""
    inner, side = (int(n) for n in v.shape)
    unit, size = _gram.unit_of(v), ops.abs(v)
    computed = ops.sum(ops.abs(_gram.product(ops.transpose(v), v)), axis=1)
    error = ops.sum(size * ops.sum(size, axis=1, keepdims=True), axis=0)
    total = (computed + gamma(inner, unit) * error) * (1.0 + 2.0 * gamma(inner + side + 8, unit))
    return total + 2.0 * inner * side * _gram.least_normal(v)
