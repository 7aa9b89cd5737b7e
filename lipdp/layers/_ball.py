"""Projection of each sample on the Euclidean ball, in the graph."""

from __future__ import annotations

from typing import Any

from keras import ops


def project_samples(x: Any, radius: float) -> Any:
    """``x min(1, radius / ||x||)``, the norm over all axes but the first; non-finite rows to 0.

    Everything is divided by ``p = max(radius, max |x|)`` first, so nothing overflows, and the
    norm is rooted only where it is at least 1, so its derivative is finite. p cancels in the
    result, hence it may be a constant for differentiation. The derivative outside the ball,
    ``(radius / ||x||)(I - x x^T / ||x||^2)``, has norm at most 1; inside it is the identity.

    Args:
        x: Samples, shape (n, ...), any finite or non-finite floats.
        radius: Radius of the ball.
    """
    axes = tuple(range(1, len(x.shape)))
    x = finite_samples(x, axes)
    peak = ops.max(ops.abs(x), axis=axes, keepdims=True)
    scale = ops.stop_gradient(ops.maximum(peak, radius))
    v = x / scale
    square = ops.sum(ops.square(v), axis=axes, keepdims=True)
    # Where the peak exceeds the radius, v has an entry 1 and the square is at least 1.
    inside = ops.logical_and(scale <= radius, square <= 1.0)
    norm = ops.sqrt(ops.where(inside, ops.ones_like(square), square))
    return ops.where(inside, x, v * (radius / norm))


def finite_samples(x: Any, axes: tuple[int, ...]) -> Any:
    """Rows with a non-finite entry replaced by zero; their derivative is zero, never NaN."""
    finite = ops.all(ops.isfinite(x), axis=axes, keepdims=True)
    return ops.where(finite, x, ops.zeros_like(x))
