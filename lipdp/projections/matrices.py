"""Pieces of projections that run in the graph of any backend."""

from __future__ import annotations

import math
import warnings
from typing import Any

from keras import backend, ops

from lipdp.errors import InvalidValue
from lipdp.numerics import gamma, unit_roundoff


def widen(w: Any) -> Any:
    """The weight in float64, where rounding is harmless and no matrix unit shortens it.

    JAX answers float32 unless its 64-bit mode is on; read the dtype of the result.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return ops.cast(w, "float64")


def unit_of(w: Any) -> float:
    """Unit round-off of a tensor's dtype."""
    return unit_roundoff(backend.standardize_dtype(w.dtype))


def least_normal(w: Any) -> float:
    """Smallest number of a tensor's dtype that is not subnormal; backends may flush those to 0."""
    return 2.0**-1022 if unit_of(w) < 2.0**-40 else 2.0**-126


def product(a: Any, b: Any) -> Any:
    """Matrix product in the operands' own precision.

    ``ops.matmul``, ``ops.minimum`` and ``ops.maximum`` shorten float64 to float32 on PyTorch; the
    operators of the tensors do not.
    """
    return a @ b


def lesser(a: Any, b: Any) -> Any:
    """The smaller of two tensors, in their own precision."""
    return ops.where(a < b, a, b)


def at_least_one(a: Any) -> Any:
    """``max(a, 1)``, in the precision of a."""
    return ops.where(a > 1.0, a, ops.ones_like(a))


def sides(w: Any) -> tuple[int, int]:
    """Smaller and larger side of the matrix (product of all axes but the last, last axis)."""
    if len(w.shape) == 0:
        raise InvalidValue("A scalar has no spectral norm", received=tuple(w.shape))
    columns = int(w.shape[-1])
    rows = math.prod(int(n) for n in w.shape[:-1])
    return min(rows, columns), max(rows, columns)


def is_tall(w: Any) -> bool:
    """Whether the matrix of a weight has at least as many rows as columns."""
    return int(w.shape[-1]) == sides(w)[0]


def tall(w: Any) -> Any:
    """The matrix of a weight, transposed if it has more columns than rows."""
    v = ops.reshape(w, (-1, w.shape[-1]))
    return v if is_tall(w) else ops.transpose(v)


def like(v: Any, w: Any) -> Any:
    """A matrix made of ``tall(w)`` in the shape of w."""
    return ops.reshape(v if is_tall(w) else ops.transpose(v), w.shape)


def normalized(w: Any, axes: tuple[int, ...] | None = None) -> tuple[Any, Any]:
    """``(w / peak, peak)`` with peak the greatest absolute entry (``w`` itself if that is 0).

    The peak is one of each slice that spans these axes, which it keeps; of all entries if None.

    In XLA's float32 a peak above 8e37 gives zeros (its reciprocal underflows): a point of every
    ball.
    """
    peak = ops.max(ops.abs(w), axis=axes, keepdims=axes is not None)
    return w / ops.where(peak > 0, peak, ops.ones_like(peak)), peak


def nan_unless_finite(w: Any, projected: Any) -> Any:
    """All NaN if the weight had a non-finite entry, so that the failure shows."""
    return ops.where(ops.all(ops.isfinite(w)), projected, ops.full_like(projected, math.nan))


def norm_from_gram(gram: Any, inner: int, squarings: int) -> Any:
    """Proved upper bound of ``||V||_2``, at least 1, for V with entries in [-1, 1], one of them 1.

    For every matrix ``||M||_2^2 = ||M M^T||_2``, and ``||M||_2 <= ||M||_F``, ``||M||_2 <=
    sqrt(||M||_1 ||M||_inf)``. So with ``M_0 = V^T V`` and ``M_(j+1) = M_j M_j^T`` (each divided by
    its Frobenius norm first, which is put back after the root), ``||V||_2^2 <= ||M_t||^(1/2^t)``.

    Rounding, with k the side of the Gram matrix: the computed ``M_0`` is off by ``gamma(inner)
    ||V||_F^2 <= k gamma(inner) ||V||_2^2``, later ones by ``k gamma(k)``, and the last norm by
    ``gamma(k^2)``; root j divides its error by ``2^(j+1)``. The sum is below ``2 k gamma(inner +
    16)`` because ``k <= inner``.

    Args:
        gram: ``V^T V`` on the smaller side, shape (k, k).
        inner: Length of its inner products.
        squarings: Number t of squarings; the overshoot is at most ``k^(1/2^(t+2))``.
    """
    m, scales = gram, []
    for _ in range(squarings):
        scales.append(_frobenius(m))
        m = m / scales[-1]
        m = product(m, ops.transpose(m))
    bound = lesser(_frobenius(m), _row_column_norm(m))
    for scale in reversed(scales):
        bound = scale * ops.sqrt(bound)
    slack = 2 * int(gram.shape[0]) * gamma(inner + 16, unit_of(gram))
    if slack > 0.25:
        raise InvalidValue(
            "The matrix is too large for a proved norm in this precision",
            received=(int(gram.shape[0]), inner),
            fix="Use a smaller layer, or allow float64 in the backend",
        )
    return at_least_one(ops.sqrt(bound) * (1.0 + slack))


def _frobenius(m: Any) -> Any:
    norm = ops.sqrt(ops.sum(ops.square(m)))
    return ops.where(norm > 0, norm, ops.ones_like(norm))


def _row_column_norm(m: Any) -> Any:
    size = ops.abs(m)
    return ops.sqrt(ops.max(ops.sum(size, axis=0)) * ops.max(ops.sum(size, axis=1)))
