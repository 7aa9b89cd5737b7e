"""Removing the mean along an axis."""

from __future__ import annotations

import math
from typing import Any

from keras import ops


def centered(x: Any, axis: int) -> Any:
    """``x - mean(x)`` along an axis: an orthogonal projection, of norm 1.

    With n entries the mean is off by ``gamma_(n + 1) sum |x| / n``, n times over, which is at most
    ``gamma_(n + 1) ||x||`` in norm; backward the same.
    """
    return x - ops.sum(x, axis=axis, keepdims=True) * (1.0 / x.shape[axis])


def centering_roundings(size: int) -> int:
    """Roundings of ``centered`` over ``size`` entries, relative to the norm of the input."""
    return 2 * size + math.ceil(math.sqrt(size)) + 8
