"""Sizes of one sample, which every bound needs to be known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lipdp.errors import InvalidValue


def sample_shape(input_shape: Sequence[int | None]) -> tuple[int, ...]:
    """The shape without the batch axis, known and of at least one axis.

    Raises:
        InvalidValue: If a size is unknown or there is no axis but the batch.
    """
    known = [size for size in input_shape[1:] if size is not None]
    if not known or len(known) != len(input_shape) - 1:
        raise InvalidValue(
            "The shape of one sample must be known and have at least one axis",
            received=tuple(input_shape),
            fix="Start the model with a BoundedInput or keras.Input of fixed shape",
        )
    return tuple(known)


def entries(input_shape: Sequence[int | None]) -> int:
    """Number of entries of one sample."""
    return math.prod(sample_shape(input_shape))


def positions(input_shape: Sequence[int | None]) -> int:
    """Number of positions of one sample: all its axes but the last."""
    return math.prod(sample_shape(input_shape)[:-1])


def divisible(input_shape: Sequence[int | None], divisor: int) -> None:
    """Checks the last axis.

    Raises:
        InvalidValue: If the divisor does not divide it.
    """
    if sample_shape(input_shape)[-1] % divisor:
        raise InvalidValue(
            f"The last axis must be divisible by {divisor}",
            received=tuple(input_shape),
            fix="Change the number of units in front",
        )
