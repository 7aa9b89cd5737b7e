"""The spectral ball: by rescaling, by Björck's orthogonalisation, and by almost-orthogonal rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.numerics import count, gamma, unit_roundoff
from lipdp.projections import matrices
from lipdp.projections.balls import RadiusBall
from lipdp.projections.base import Projection
from lipdp.projections.norms import spectral_norm_bound

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
        smaller, larger = matrices.sides(v)
        v = matrices.tall(v)
        bound = matrices.norm_from_gram(matrices.product(ops.transpose(v), v), larger, _SQUARINGS)
        return bound * (1.0 + math.sqrt(smaller) * 4 * matrices.unit_of(v))

    def _growth(self, w: Any) -> float:
        return math.sqrt(matrices.sides(w)[0])

    def _certificate(self, w: Any) -> float:
        smaller, larger = matrices.sides(w)
        return 8.0 * smaller * gamma(larger + 16, unit_roundoff("float64"))


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralProjection(SpectralBall):
    """Keeps a kernel, read as a matrix, inside ``||W||_2 <= radius`` by one scalar factor.

    The matrix has shape (product of all axes but the last, last axis). The norm is the proved
    bound of Gram iteration; power iteration would give a lower bound.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside the ball as computed.
        * A weight with a non-finite entry becomes all NaN.
    """


#: Kernels of a larger norm are scaled first: below sqrt 3, where the polynomial has a root.
START = 1.5
#: The norm that they are scaled to, where the polynomial is 0.94; at 1.5 it is 0.56.
_SCALED = 1.2
#: Largest part of its norm that rounding may take off an orthogonal kernel.
_MOST_SLACK = 0.01


def is_precise(smaller: int, larger: int, unit: float) -> bool:
    """Whether a step in this precision costs an orthogonal kernel at most one per cent."""
    terms = (smaller + larger + 16) * unit
    return terms < 0.01 and 0.5 * _gram_error(smaller, larger, unit, smaller) <= _MOST_SLACK


class BjorckStep:
    """What is known of one matrix V by its Gram matrix, and its step.

    Rounding: the computed ``A = V^T V`` is off by an E of ``||E||_F <= gamma(l) || |V|^T |V| ||_F
    <= gamma(l) ||V||_F^2``, where ``||V||_F^2`` is A's trace.

    Args:
        v: Shape (l, k), l >= k.
        gram: ``V^T V`` as computed, shape (k, k).
    """

    def __init__(self, v: Any, gram: Any) -> None:
        self._v = v
        self._inner, self._side = (int(n) for n in v.shape)
        self._unit = matrices.unit_of(v)
        self._gram = gram
        self._eye = ops.eye(self._side, dtype=self._gram.dtype)
        self._trace = ops.sum(ops.diagonal(self._gram))
        self._mean = self._trace / self._side
        off = self._gram - self._mean * self._eye
        # Two levels of sums, so that k terms round one after the other and not k^2.
        self._spread = ops.sqrt(ops.sum(ops.sum(ops.square(off), axis=0)))
        self._error = _gram_error(self._side, self._inner, self._unit, self._trace)

    def norm_square(self, squarings: int = 0) -> Any:
        """Proved upper bound of ``||V||_2^2``; infinite or NaN for a V that is not finite.

        ``||A||_2 <= m + ||A - m I||_F`` for every m (triangle inequality), here the mean
        eigenvalue: 1 for an orthogonal V. As ``||A||_2^2 = ||A A^T||_2``, the same of ``A A^T`` is
        a sharper bound, the more the farther V is from orthogonal.

        Args:
            squarings: How often the Gram matrix is squared first.
        """
        sums = 1.0 + 2.0 * gamma(2 * self._side + 16, self._unit)
        if squarings == 0:
            return (self._mean + self._spread) * sums + self._error
        power = ops.transpose(self._gram)
        square = BjorckStep(power, matrices.product(self._gram, power))
        return ops.sqrt(square.norm_square(squarings - 1)) * sums + self._error

    def deviation(self) -> Any:
        """How far the squared singular values are from their mean: root mean square, relative."""
        return self._spread / (self._mean * self._side**0.5)

    def result(self, norm_square: Any, weight_unit: float) -> Any:
        """``s V (1.5 I - 0.5 s^2 V^T V)`` times the factor that keeps it in the ball as computed.

        s is 1 up to a proved norm of 1.5, beyond ``1.2 / ||V||_2`` by that norm.
        On singular values, the polynomial maps [0, 2] into [-1, 1]. In units of ``s V``: E moves
        the result by at most ``0.5 ||V||_2 ||E||_F``. With M the
        computed bracket, the product is off by ``gamma(k) || |V| |M| ||_F <=
        gamma(k) ||V||_F || |M| ||_2``, and ``|| |M| ||_2 <= |1.5 - 0.5 m| + 0.5 ||A - m I||_F``;
        M's own roundings by ``14 u``. The cast to the weight's dtype moves an entry by ``u``, the
        matrix by ``sqrt(k) u``, and the norm on the host is rounded up by less than the last term.
        With e the sum, the factor is ``1 - e`` and the result at most ``(1 - e) (1 + e) < 1``.

        Args:
            norm_square: From ``norm_square()``, finite.
            weight_unit: Unit round-off of the weight that the result is cast to.
        """
        side, unit = self._side, self._unit
        norm = ops.sqrt(norm_square)
        scale = ops.where(norm <= START, ops.ones_like(norm), _SCALED / norm)
        square = ops.square(scale)
        from_gram = 0.5 * scale * norm * square * self._error
        bracket = ops.abs(1.5 - 0.5 * square * self._mean) + 0.6 * square * self._spread
        from_product = 1.1 * gamma(side + 16, unit) * scale * ops.sqrt(self._trace) * bracket
        from_entries = side**0.5 * (2.0 * weight_unit + 16.0 * unit)
        certificate = 8 * side * gamma(self._inner + 16, unit_roundoff("float64"))
        factor = scale * (1.0 - from_gram - from_product - from_entries - certificate)
        matrix = (1.5 * factor) * self._eye - (0.5 * factor * square) * self._gram
        return matrices.product(self._v, matrix)


def _gram_error(side: int, inner: int, unit: float, trace: Any) -> Any:
    """Bound of ``||E||_F``; the last term is what products that underflow to zero may lack."""
    return 1.1 * gamma(inner + 16, unit) * trace + side * inner * 2.0**-126


_BJORCK_SQUARINGS = 2
#: Root mean square of the relative error of the squared singular values above which the steps
#: after the first are made: one step then leaves an error of 0.4 %.
_ROUGH = 0.1
#: Matrices of a larger sum of squares are divided by their norm first, or their powers overflow.
_FAR = 1e4


@final
@keras.saving.register_keras_serializable(package="lipdp")
class BjorckProjection(Projection):
    """Moves a kernel towards orthogonality and keeps ``||W||_2 <= 1``.

    The kernel is read as a matrix of shape (product of all axes but the last, last axis), with
    sides k <= l. It is scaled to norm 1.2 if its proved norm is above 1.5, then follow Björck steps
    ``p(W) = 1.5 W - 0.5 W W^T W``. On singular values, p maps [0, 2] into [-1, 1] and fixes 1, so
    one exact step ends inside the ball; ``BjorckStep`` covers the rounding.

    Near the set, as after most steps of a training, the proved norm comes from the Gram matrix
    itself, else from its squares. The arithmetic is that of the kernel where this takes at most 1 %
    off its norm (float32: 784x256 0.7 %, 288x64 0.06 %), else float64, which JAX has in its 64-bit
    mode alone.

    Args:
        iterations: Most steps, at least 1. Those after the first are made where it began far from
            orthogonal; each squares the distance.

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
        sides = matrices.sides(w)
        v = matrices.tall(w if is_precise(*sides, matrices.unit_of(w)) else matrices.widen(w))
        _check_precision(*sides, matrices.unit_of(v))
        v = self._steps(v, matrices.unit_of(w))
        return ops.cast(matrices.like(v, w), w.dtype)

    def _steps(self, v: Any, weight_unit: float) -> Any:
        first = BjorckStep(*_not_far(v))
        v = first.result(_norm_square(first), weight_unit)
        # Proved of what a step returns: nothing is to be computed for it.
        at_most_one = ops.ones((), v.dtype)
        for _ in range(self.iterations - 1):
            v = ops.cond(
                first.deviation() > _ROUGH,
                lambda m=v: BjorckStep(m, _own_gram(m)).result(at_most_one, weight_unit),
                lambda m=v: m,
            )
        return v

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {"iterations": self.iterations}


def _not_far(v: Any) -> tuple[Any, Any]:
    """The matrix if its powers cannot overflow, else what ``_far`` makes of it; its Gram matrix."""
    gram = _own_gram(v)
    # False for a matrix that is not finite.
    is_near = ops.sum(ops.diagonal(gram)) <= max(_FAR, 4.0 * int(v.shape[1]))
    return ops.cond(is_near, lambda: (v, gram), lambda: _far(v))


def _norm_square(step: BjorckStep) -> Any:
    bound = step.norm_square()
    return ops.cond(
        bound <= START**2,
        lambda: bound,
        lambda: matrices.lesser(step.norm_square(_BJORCK_SQUARINGS), bound),
    )


def _far(v: Any) -> tuple[Any, Any]:
    """The matrix inside the ball by one factor, of its proved norm; and its Gram matrix.

    What is lost of the last 3 % covers two roundings of each entry and the cast, ``4 sqrt(k) u``.
    """
    scaled, _ = matrices.normalized(v)
    norm = matrices.norm_from_gram(_own_gram(scaled), int(v.shape[0]), _BJORCK_SQUARINGS)
    inside = matrices.nan_unless_finite(v, scaled * (0.97 / norm))
    return inside, _own_gram(inside)


def _own_gram(v: Any) -> Any:
    return matrices.product(ops.transpose(v), v)


def _check_precision(smaller: int, larger: int, unit: float) -> None:
    if not is_precise(smaller, larger, unit / 8.0):
        raise InvalidValue(
            "The kernel is too large for a proved Björck step in this precision",
            received=(smaller, larger),
            fix="Use a smaller layer, or allow float64 in the backend",
        )


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
        matrix = matrices.tall(v)
        return matrices.like(matrix / ops.sqrt(_row_sums(matrix)), v)


def _row_sums(v: Any) -> Any:
    """Above ``sum_j |V^T V|_ij``, and above 0, for V of shape (l, k) with entries in [-1, 1]."""
    inner, side = (int(n) for n in v.shape)
    unit, size = matrices.unit_of(v), ops.abs(v)
    computed = ops.sum(ops.abs(matrices.product(ops.transpose(v), v)), axis=1)
    error = ops.sum(size * ops.sum(size, axis=1, keepdims=True), axis=0)
    total = (computed + gamma(inner, unit) * error) * (1.0 + 2.0 * gamma(inner + side + 8, unit))
    return total + 2.0 * inner * side * matrices.least_normal(v)
