"""Rows of the shape that a model was built for: its bounds are for no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from lipdp.errors import InvalidData


def check_row_shape(model: keras.Model, shape: Sequence[int | None]) -> None:
    """Refuses rows that a model of one input was not built for.

    Pooling, biases and the like grow with the number of positions, which a ``keras.Sequential``
    and a batch of varying size do not compare with that of ``build``. An axis of size 1 at the end
    may be missing or too much, as Keras takes it.

    Args:
        model: A built model. One of several inputs is never a ``Sequential``, and Keras compares
            its arrays itself.
        shape: Of one row, without the batch axis.

    Raises:
        InvalidData: If the model was built for another shape.
    """
    if len(model.inputs) != 1:
        return
    built, row = tuple(model.inputs[0].shape[1:]), tuple(shape)
    if built not in (row, (*row, 1)) and row != (*built, 1):
        raise InvalidData(
            f"The model {model.name!r} was built for rows of another shape, and its bounds are for"
            " that shape alone",
            received=f"rows of shape {row} for a model of {built}",
            fix=f"Pass rows of shape {built}, or build a model for {row}",
        )


def input_spec_of(model: keras.Sequential) -> Any:
    """What a functional model of the same layers demands of its input; None before ``build``."""
    return None if model._functional is None else model._functional.input_spec
