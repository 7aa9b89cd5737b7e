"""A Björck step by one Gram matrix, in the weight's own precision, with its error as a number."""

from __future__ import annotations

from typing import Any

from keras import ops

from lipdp.projections import _gram
from lipdp.rounding import gamma, unit_roundoff

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
        self._unit = _gram.unit_of(v)
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
        square = BjorckStep(power, _gram.product(self._gram, power))
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
        return _gram.product(self._v, matrix)


def _gram_error(side: int, inner: int, unit: float, trace: Any) -> Any:
    """Bound of ``||E||_F``; the last term is what products that underflow to zero may lack."""
    return 1.1 * gamma(inner + 16, unit) * trace + side * inner * 2.0**-126
