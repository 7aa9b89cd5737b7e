"""Proved upper bounds of norms, in float64 on the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lipdp.rounding import gamma, unit_roundoff

_UNIT = unit_roundoff("float64")
_UNDERFLOW = 1e-290  # far above any sum of products that underflowed


def frobenius_norm_bound(w: Any) -> float:
    """Upper bound of the Euclidean norm of all entries.

    The entries are scaled by a power of two, which is exact, so that nothing overflows. A sum of n
    squares is exact up to ``gamma(n + 1)`` relative, in any order.

    Args:
        w: Array of any shape.

    Returns:
        The bound, 0 for an all-zero or empty array, ``inf`` for one with a non-finite entry.
    """
    v, exponent = normalized(w)
    if exponent is None:
        return degenerate(v)
    return scaled_up(math.sqrt(_square_sum_bound(v.reshape(1, -1))), exponent)


def spectral_norm_bound(w: Any) -> float:
    """Upper bound of the greatest singular value, tight to about ``n gamma(m)``.

    The array is read as a matrix of shape (product of all axes but the last, last axis). Power
    iteration would give a lower bound; here a trial value is proved, see ``spectral_square``.

    Args:
        w: Array of any shape.

    Returns:
        The bound, 0 for an all-zero or empty array, ``inf`` for one with a non-finite entry.
    """
    v, exponent = normalized(w)
    if exponent is None:
        return degenerate(v)
    v = v.reshape(-1, v.shape[-1]) if v.ndim else v.reshape(1, 1)
    return scaled_up(math.sqrt(spectral_square(v)), exponent)


def spectral_square(v: np.ndarray) -> float:
    """Upper bound of ``||V||_2^2``, the greatest over all matrices V of a stack.

    With sides m >= n, a trial value c^2, slightly above the computed greatest eigenvalue of all
    Gram matrices, is proved by a Cholesky factorisation of each computed ``A = c^2 I - V^T V``:

    * ``|fl(V^T V) - V^T V| <= gamma(m) |V|^T |V|``, of 2-norm at most ``gamma(m) ||V||_F^2``;
    * the subtraction is exact up to ``2 u c^2``;
    * if the factorisation ends, its factor R has ``|A - R^T R| <= gamma(n + 1) |R|^T |R|``, and
      ``|| |R|^T |R| ||_2 <= ||R||_F^2 <= trace(A) / (1 - gamma(n + 1))``; as ``R^T R >= 0``, the
      least eigenvalue of A is at least minus ``gamma(n + 1) / (1 - gamma(n + 1)) trace(A)``.

    So ``||V||_2^2`` is at most c^2 plus these terms. Source: N. Higham, Accuracy and Stability of
    Numerical Algorithms (2nd ed.), section 3.5 and Theorem 10.3.

    Args:
        v: Finite array of shape (..., m, n) or (..., n, m), not empty, entries far from overflow.
    """
    v = v if v.shape[-2] >= v.shape[-1] else np.swapaxes(v, -1, -2)
    square = _square_sum_bound(v.reshape(-1, v.shape[-2] * v.shape[-1]))
    return min(square, _proved_square(v, square))


def _proved_square(v: np.ndarray, square: float) -> float:
    inner, side = v.shape[-2:]
    gram = np.swapaxes(v, -1, -2) @ v
    estimate = float(np.max(np.linalg.eigvalsh(gram)))
    for power in range(8):
        trial = estimate * (1.0 + 4.0**power * (inner + side) * _UNIT)
        rest = trial * np.eye(side) - gram
        if _has_cholesky(rest):
            error = gamma(side + 1, _UNIT)
            trace = float(np.max(np.trace(rest, axis1=-2, axis2=-1)))
            error *= trace * (1.0 + gamma(side, _UNIT)) / (1.0 - error)
            return trial * (1.0 + 2.0 * _UNIT) + gamma(inner, _UNIT) * square + error + _UNDERFLOW
    return math.inf


def _has_cholesky(a: np.ndarray) -> bool:
    try:
        factor = np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return False
    return bool(np.all(np.isfinite(factor)))


def normalized(w: Any) -> tuple[np.ndarray, int | None]:
    """The array over 2^e, of greatest entry in [1/2, 1), and e; None if it is 0 or not finite."""
    v = np.asarray(w, dtype=np.float64)
    peak = float(np.max(np.abs(v))) if v.size else 0.0
    if peak == 0.0 or not math.isfinite(peak):
        return v, None
    exponent = math.frexp(peak)[1]
    return np.ldexp(v, -exponent), exponent


def degenerate(v: np.ndarray) -> float:
    """Norm of an array that is all zero, or not finite."""
    return 0.0 if bool(np.all(v == 0.0)) else math.inf


def scaled_up(value: float, exponent: int = 0) -> float:
    """``value 2^exponent``, above it even if the value is short of its exact one by 6 u."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.nextafter(np.ldexp(value * (1.0 + 8.0 * _UNIT), exponent), np.inf))


def _square_sum_bound(rows: np.ndarray) -> float:
    """Greatest sum of the squares of a row."""
    most = float(np.max(np.sum(np.square(rows), axis=-1)))
    return most * (1.0 + 2.0 * gamma(rows.shape[-1] + 1, _UNIT)) + _UNDERFLOW
