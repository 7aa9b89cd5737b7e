"""The Euclidean norm, made differentiable at zero."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


def smooth_norm(squares: Any) -> Any:
    """A norm r from its square: ``r - m / 2`` above m, ``r^2 / (2 m)`` below; m tiny.

    As a function of the vector it is 1-Lipschitz, 0 at 0, at most r, and its derivative
    ``x / max(r, m)`` is continuous and 0 at 0. The constant m, 2^-50 (2^-400 in float64), is far
    below the precision of every activation that matters, so ``r - m / 2`` is r as computed. It is
    there because squares that underflow lose what they were: above ``m^2`` the k squares of a sum
    lose at most ``k 2^-126 / m^2 = k 2^-26`` of it, a quarter of the rounding of the sum.

    Args:
        squares: Sums of squares, any shape.
    """
    least = 2.0**-400 if keras.backend.standardize_dtype(squares.dtype) == "float64" else 2.0**-50
    large = squares > least * least
    # The root of what is not selected must have a finite derivative: 0 * inf is NaN.
    root = ops.sqrt(ops.where(large, squares, ops.ones_like(squares)))
    return ops.where(large, root - 0.5 * least, squares * (0.5 / least))
