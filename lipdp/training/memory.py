"""How many rows are processed at a time, and memory of one step that the next one uses again."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from lipdp.bounds.graph import graph_of
from lipdp.training.devices import Devices

# Of mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4
#: glibc's default of how many arrays may have pages of their own.
_ARRAYS_APART = 65536
#: glibc's default of what it keeps free behind a heap, and the most that a thread's heap holds. One
#: that an array fills would be returned whole with it, unless that much is asked to stay free.
_ROOM, _MOST_ROOM = 128 << 10, 64 << 20
#: Where glibc's own rule ends; more it does not take.
MOST_OF_AN_ARRAY = 32 << 20
_LARGEST_INT = 2**31 - 1
#: What is served from the heap in any case. With 32 MiB a run on small batches of an array on disk
#: kept 200 MB more.
_LEAST = 8 << 20
#: Slots of a batch over its expected rows.
PADDING = 1.2
_CHOSEN_BY_USER = (
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_MMAP_MAX_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "GLIBC_TUNABLES",
)


class HeapReuse(keras.callbacks.Callback):
    """Lets a step's arrays lie in memory that the step before gave back.

    TensorFlow's reader of batches that are made in Python ends glibc's own rule for that, for the
    whole process: from then on each array above 128 KiB gets new pages from the system and gives
    them back: two fifths of a private step's time for a small network on two cores, and a third for
    a convolutional one, whose arrays are above that rule's 32 MiB in any case. Other backends and C
    libraries, and settings of the user's own, are left alone. A thread's heap is unmapped once
    nothing lies in it; to ask for as much room behind it keeps it, which took a step of 512 rows
    from 163 to 129 ms for a tenth more memory.

    Args:
        array_bytes: Expected size of the largest array of a step. Arrays of that size are served
            from the heap, and all of up to 8 MiB; where it is above 32 MiB, all arrays until the
            training ends. Twice as much may lie free at the end of a heap, and a heap of up to
            64 MiB that a thread needs again stays.
    """

    def __init__(self, array_bytes: int) -> None:
        super().__init__()
        self._largest = max(_LEAST, math.ceil(PADDING * array_bytes))

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """At the first batch of an epoch its reader is there."""
        if batch == 0 and keras.backend.backend() == "tensorflow":
            serve_from_heap(self._largest, os.environ)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """What is free goes back to the system, and large arrays get pages of their own again."""
        if self._largest > MOST_OF_AN_ARRAY and keras.backend.backend() == "tensorflow":
            give_back(os.environ)


def serve_from_heap(largest: int, environment: Mapping[str, str]) -> bool:
    """Sets glibc's thresholds; returns whether it did.

    Args:
        largest: Bytes of the largest array that comes from the heap; all do if it is above 32 MiB.
        environment: Variables that may say what the user wants instead.
    """
    if not _may_be_set(environment):
        return False
    library = ctypes.CDLL(None)
    done = [
        library.mallopt(_MMAP_THRESHOLD, min(largest, MOST_OF_AN_ARRAY)),
        library.mallopt(_TRIM_THRESHOLD, min(2 * largest, _LARGEST_INT)),
        library.mallopt(_MMAP_MAX, 0 if largest > MOST_OF_AN_ARRAY else _ARRAYS_APART),
        library.mallopt(_TOP_PAD, _MOST_ROOM if largest > MOST_OF_AN_ARRAY else _ROOM),
    ]
    return all(done)


def give_back(environment: Mapping[str, str]) -> None:
    """Ends that all arrays come from the heap, and returns what is free in it.

    Args:
        environment: As in ``serve_from_heap``.
    """
    if _may_be_set(environment):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_MAX, _ARRAYS_APART)
        library.mallopt(_TOP_PAD, _ROOM)
        library.malloc_trim(0)


def _may_be_set(environment: Mapping[str, str]) -> bool:
    return not any(name in environment for name in _CHOSEN_BY_USER) and _is_glibc()


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False


#: Most bytes of the largest array of a microbatch. Beyond 32 MiB glibc gives it new pages each
#: time; XLA on a processor keeps all arrays of a step in one block, several times as large.
_MOST, _MOST_ON_JAX = MOST_OF_AN_ARRAY, 8 << 20
#: Fewer rows at a time would not keep a processor busy, however large their arrays are.
_LEAST_ROWS = 32


def rows_at_a_time(model: keras.Model, devices: Devices, rows: int) -> int | None:
    """Most slots of a microbatch whose largest array stays within 32 MiB (JAX: 8 MiB).

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
    """Bytes of a row's inputs together, or of the largest output that a layer makes of it.

    A tensor without a shape counts as nothing.
    """
    inputs = sum(
        math.prod(given.shape[1:]) * np.dtype(given.dtype).itemsize
        for given in model.inputs
        if None not in given.shape[1:]
    )
    made = (
        call.shapes.size * np.dtype(model.compute_dtype).itemsize for call in graph_of(model).calls
    )
    return max([inputs, *made])
