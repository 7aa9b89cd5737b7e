"""Projection of each sample on the Euclidean ball, in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers._backward import with_backward
from lipdp.layers._shapes import entries, positions

_HUGE, _SHRINK = 2.0**100, 2.0**-30
#: Squares of entries that matter for such a radius neither overflow nor vanish.
_PLAIN_RADII = (2.0**-20, 2.0**20)


def project_samples(x: Any, radius: float, *, per_position: bool = False) -> Any:
    """``x min(1, radius / ||x||)`` with the norm of each sample; a non-finite one becomes 0.

    The derivative is k outside the ball, ``k (I - y y^T / radius^2)`` with y the result and
    ``k = radius / ||x||``, of norm at most 1; inside it is the identity, and 0 for a sample that is
    not finite.

    Args:
        x: Samples, shape (n, ...), any finite or non-finite floats.
        radius: Radius of the ball.
        per_position: Whether each position of a sample, a vector of channels, is projected on its
            own, and set to 0 on its own.
    """
    axes = _axes(x, per_position)
    if isinstance(x, keras.KerasTensor):
        # A graph of plain operations, for export.
        return _scaled(x, radius, axes)[0]

    def function(x: Any) -> tuple[Any, Callable[[Any], Any]]:
        y, factor, changed = _projected(x, radius, axes)

        def pull(u: Any) -> Any:
            along = ops.sum((y / radius) * u, axis=axes, keepdims=True) / radius
            return factor * (u - ops.where(changed, along, ops.zeros_like(along)) * y)

        return y, pull

    return with_backward(function, x)


def project_and_tell(x: Any, radius: Any, *, per_position: bool = False) -> tuple[Any, Any]:
    """``project_samples``, and whether each sample was changed: outside the ball or not finite.

    Args:
        x: Samples, shape (n, ...); nothing is differentiated.
        radius: Radius of the ball; a float, or a scalar tensor of x's dtype.
        per_position: As in ``project_samples``.

    Returns:
        The projected samples, and booleans with axes of size 1 in place of those of a ball.
    """
    y, _, changed = _projected(x, radius, _axes(x, per_position))
    return y, changed


def _axes(x: Any, per_position: bool) -> tuple[int, ...]:
    return (len(x.shape) - 1,) if per_position else tuple(range(1, len(x.shape)))


def _projected(x: Any, radius: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The projected samples, the factor of each, and whether it was changed."""
    if not isinstance(radius, float) or not _PLAIN_RADII[0] <= radius <= _PLAIN_RADII[1]:
        return _scaled(x, radius, axes)
    square = ops.sum(ops.square(x), axis=axes, keepdims=True)
    plain = ops.isfinite(square)
    inside = square <= radius**2
    factor = radius / ops.sqrt(ops.where(inside, ops.ones_like(square) * radius**2, square))
    factor = ops.where(inside, ops.ones_like(factor), factor)
    y, outside = x * factor, ops.logical_not(inside)

    def with_others() -> tuple[Any, Any, Any]:
        # The plain samples have the same values as without the others, bit by bit.
        found = _scaled(x, radius, axes)
        return tuple(
            ops.where(plain, a, b) for a, b in zip((y, factor, outside), found, strict=True)
        )

    return ops.cond(ops.all(plain), lambda: (y, factor, outside), with_others)


def _scaled(x: Any, radius: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The same for samples of any size.

    Everything is scaled by ``1 / p``, ``p = max(radius, max |x|)``, so nothing overflows; p cancels
    in the result.
    """
    finite = ops.all(ops.isfinite(x), axis=axes, keepdims=True)
    x = ops.where(finite, x, ops.zeros_like(x))
    peak = ops.max(ops.abs(x), axis=axes, keepdims=True)
    # Not ops.maximum, which shortens float64 to float32 on PyTorch.
    scale = ops.where(peak > radius, peak, ops.zeros_like(peak) + radius)
    v = _divide(x, scale)
    square = ops.sum(ops.square(v), axis=axes, keepdims=True)
    inside = ops.logical_and(peak <= radius, square <= 1.0)
    norm = ops.sqrt(ops.where(inside, ops.ones_like(square), square))
    changed = ops.logical_not(ops.logical_and(finite, inside))
    factor = ops.where(
        inside, ops.ones_like(norm), _divide(ops.ones_like(norm) * radius, scale) / norm
    )
    factor = ops.where(finite, factor, ops.zeros_like(factor))
    return ops.where(inside, x, v * (radius / norm)), factor, changed


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
