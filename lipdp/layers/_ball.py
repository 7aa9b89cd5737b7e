"""Projection of each sample on the Euclidean ball, in the graph."""

from __future__ import annotations

from typing import Any

from keras import ops

_HUGE, _SHRINK = 2.0**100, 2.0**-30


def project_samples(x: Any, radius: float) -> Any:
    """``x min(1, radius / ||x||)``, the norm over all axes but the first; non-finite rows to 0.

    Everything is scaled by ``1 / p``, ``p = max(radius, max |x|)``, so nothing overflows, and the
    norm is rooted only where it is about 1 or more, so its derivative is finite. p cancels in the
    result, hence it may be a constant for differentiation. The derivative outside the ball,
    ``(radius / ||x||)(I - x x^T / ||x||^2)``, has norm at most 1; inside it is the identity.

    Args:
        x: Samples, shape (n, ...), any finite or non-finite floats.
        radius: Radius of the ball.
    """
    axes = tuple(range(1, len(x.shape)))
    x = finite_samples(x, axes)
    peak = ops.max(ops.abs(x), axis=axes, keepdims=True)
    # Not ops.maximum, which shortens float64 to float32 on PyTorch.
    scale = ops.where(peak > radius, peak, ops.full_like(peak, radius))
    v = _divide(x, ops.stop_gradient(scale))
    square = ops.sum(ops.square(v), axis=axes, keepdims=True)
    inside = ops.logical_and(peak <= radius, square <= 1.0)
    norm = ops.sqrt(ops.where(inside, ops.ones_like(square), square))
    return ops.where(inside, x, v * (radius / norm))


def _divide(x: Any, scale: Any) -> Any:
    """``x / scale`` where the reciprocal of the scale may underflow.

    Compilers turn ``x / scale`` into ``x (1 / scale)`` and merge factors, so both are made smaller
    behind a selection, which they cannot merge.
    """
    huge = scale > _HUGE
    return ops.where(huge, x * _SHRINK, x) / ops.where(huge, scale * _SHRINK, scale)


def finite_samples(x: Any, axes: tuple[int, ...]) -> Any:
    """Rows with a non-finite entry replaced by zero; their derivative is zero, never NaN."""
    finite = ops.all(ops.isfinite(x), axis=axes, keepdims=True)
    return ops.where(finite, x, ops.zeros_like(x))
