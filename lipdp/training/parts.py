"""How many rows of a batch are processed at a time where nobody said so."""

from __future__ import annotations

import math

import keras
import numpy as np

from lipdp.bounds.graph import graph_of
from lipdp.training.devices import Devices
from lipdp.training.heap import MOST_OF_AN_ARRAY, PADDING

#: Most bytes of the largest array of a part. Beyond 32 MiB glibc gives an array new pages each
#: time; XLA on a processor keeps all arrays of a step in one block, several times as large.
_MOST, _MOST_ON_JAX = MOST_OF_AN_ARRAY, 8 << 20
#: Fewer rows at a time would not keep a processor busy, however large their arrays are.
_LEAST_ROWS = 32


def rows_at_a_time(model: keras.Model, devices: Devices, rows: int) -> int | None:
    """Most slots of a part of a batch whose largest array stays within 32 MiB (JAX: 8 MiB).

    What a step takes of host memory then does not grow with the batch. It is faster, too, where
    arrays stay near the processor that way (measured on two cores: a convolutional network of 32
    and 64 filters by a sixth at 1,024 rows and by a third at 4,096; JAX at least as much); an MLP
    with 16,384 rows of 784 numbers loses a tenth. An accelerator gets the whole batch.

    Args:
        model: A built model.
        devices: Those that it is trained on.
        rows: Expected rows of a batch.

    Returns:
        None where a whole batch stays within that.
    """
    if not devices.in_host_memory:
        return None
    most = _MOST_ON_JAX if keras.backend.backend() == "jax" else _MOST
    size = most_bytes_of_a_row(model)
    if PADDING * rows * size <= most or rows <= _LEAST_ROWS:
        return None
    return max(_LEAST_ROWS, most // size)


def most_bytes_of_a_row(model: keras.Model) -> int:
    """Of its inputs together, and of what any layer makes of it; no shape counts as nothing."""
    inputs = sum(
        math.prod(given.shape[1:]) * np.dtype(given.dtype).itemsize
        for given in model.inputs
        if None not in given.shape[1:]
    )
    made = (
        call.shapes.size * np.dtype(model.compute_dtype).itemsize for call in graph_of(model).calls
    )
    return max([inputs, *made])
