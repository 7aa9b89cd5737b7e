"""Projection of each sample on the Euclidean ball, in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers._shapes import entries, positions

_HUGE, _SHRINK = 2.0**100, 2.0**-30


def project_samples(x: Any, radius: float, *, per_position: bool = False) -> Any:
    """``x min(1, radius / ||x||)`` with the norm of each sample; a non-finite one becomes 0.

    Args:
        x: Samples, shape (n, ...), any finite or non-finite floats.
        radius: Radius of the ball.
        per_position: Whether each position of a sample, a vector of channels, is projected on its
            own, and set to 0 on its own.
    """
    return project_and_tell(x, radius, per_position=per_position)[0]


def project_and_tell(x: Any, radius: Any, *, per_position: bool = False) -> tuple[Any, Any]:
    """``project_samples``, and whether each sample was changed: outside the ball or not finite.

    Everything is scaled by ``1 / p``, ``p = max(radius, max |x|)``, so nothing overflows, and the
    norm is rooted only where it is about 1 or more, so its derivative is finite. p cancels in the
    result, hence it may be a constant for differentiation. The derivative outside the ball,
    ``(radius / ||x||)(I - x x^T / ||x||^2)``, has norm at most 1; inside it is the identity.

    Args:
        x: Samples, shape (n, ...).
        radius: Radius of the ball; a float, or a scalar tensor of x's dtype.
        per_position: As in ``project_samples``.

    Returns:
        The projected samples, and booleans with axes of size 1 in place of those of a ball.
    """
    axes = (len(x.shape) - 1,) if per_position else tuple(range(1, len(x.shape)))
    finite = ops.all(ops.isfinite(x), axis=axes, keepdims=True)
    # The derivative of a row that is replaced by zero is zero, never NaN.
    x = ops.where(finite, x, ops.zeros_like(x))
    peak = ops.max(ops.abs(x), axis=axes, keepdims=True)
    # Not ops.maximum, which shortens float64 to float32 on PyTorch.
    scale = ops.where(peak > radius, peak, ops.zeros_like(peak) + radius)
    v = _divide(x, ops.stop_gradient(scale))
    square = ops.sum(ops.square(v), axis=axes, keepdims=True)
    inside = ops.logical_and(peak <= radius, square <= 1.0)
    norm = ops.sqrt(ops.where(inside, ops.ones_like(square), square))
    changed = ops.logical_not(ops.logical_and(finite, inside))
    return ops.where(inside, x, v * (radius / norm)), changed


def balls(input_shape: Sequence[int | None], per_position: bool) -> tuple[int, int]:
    """Number of vectors that ``project_samples`` projects for one sample, and their size."""
    count = positions(input_shape) if per_position else 1
    return count, entries(input_shape) // count


def flag(name: str, value: Any) -> bool:
    """The value, if it is True or False.

    Raises:
        InvalidValue: If it is neither.
    """
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} must be True or False", received=value)
    return value


def _divide(x: Any, scale: Any) -> Any:
    """``x / scale`` where the reciprocal of the scale may underflow.

    Compilers turn ``x / scale`` into ``x (1 / scale)`` and merge factors, so both are made smaller
    behind a selection, which they cannot merge.
    """
    huge = scale > _HUGE
    return ops.where(huge, x * _SHRINK, x) / ops.where(huge, scale * _SHRINK, scale)
