"""A linear classifier."""

from __future__ import annotations

import keras

from lipdp.layers import FrobeniusDense
from lipdp.models._front import front
from lipdp.numerics import count


def linear(
    num_features: int,
    num_outputs: int,
    *,
    input_radius: float = 1.0,
    min_norm: float | None = None,
    head_radius: float = 1.0,
    dtype: str = "float32",
) -> list[keras.layers.Layer]:
    """Layers of ``x W`` with ``||W||_F <= head_radius`` behind a bounded input; no bias.

    Weights start at 0: a random start would be most of what a short training ends with.

    Args:
        num_features: Size of one row.
        num_outputs: Number of logits; 1 for binary labels.
        input_radius: Euclidean norm to which rows are clipped.
        min_norm: If given, rows are then normalised to the unit sphere, those of a smaller norm
            only scaled by ``1 / min_norm``.
        head_radius: Radius of the Frobenius ball of the weights.
        dtype: Type of computation and weights.

    Raises:
        InvalidValue: If an argument is outside its domain.
    """
    head = FrobeniusDense(
        count("num_outputs", num_outputs),
        radius=head_radius,
        kernel_initializer="zeros",
        dtype=dtype,
    )
    return [*front(num_features, input_radius, min_norm, dtype), head]
