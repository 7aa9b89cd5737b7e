"""Memory of one step that the next one uses again."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Mapping
from typing import Any

import keras

# Of mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: Where glibc's own rule ends; more it does not take.
_MOST = 32 << 20
#: What is served from the heap in any case. With 32 MiB a run on small batches of an array on disk
#: kept 200 MB more.
_LEAST = 8 << 20
#: Slots of a batch over its expected rows.
_PADDING = 1.2
_CHOSEN_BY_USER = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


class HeapReuse(keras.callbacks.Callback):
    """Lets a step's arrays lie in memory that the step before gave back.

    TensorFlow's reader of batches that are made in Python ends glibc's own rule for that, for the
    whole process: from then on each array above 128 KiB gets new pages from the system and gives
    them back. For a small network on two cores that was two fifths of a private step's time. Other
    backends and C libraries, and settings of the user's own, are left alone.

    Args:
        batch_bytes: Expected size of the inputs that are processed at a time: arrays of that size
            are served from the heap, at least those of 8 MiB and at most those of 32 MiB. Twice as
            much may lie free at the end of each thread's heap.
    """

    def __init__(self, batch_bytes: int) -> None:
        super().__init__()
        self._largest = min(_MOST, max(_LEAST, math.ceil(_PADDING * batch_bytes)))

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """At the first batch of an epoch its reader is there."""
        if batch == 0 and keras.backend.backend() == "tensorflow":
            serve_from_heap(self._largest, os.environ)


def serve_from_heap(largest: int, environment: Mapping[str, str]) -> bool:
    """Sets glibc's thresholds; returns whether it did.

    Args:
        largest: Bytes of the largest array that comes from the heap.
        environment: Variables that may say what the user wants instead.
    """
    if any(name in environment for name in _CHOSEN_BY_USER) or not _is_glibc():
        return False
    library = ctypes.CDLL(None)
    set_both = [
        library.mallopt(_MMAP_THRESHOLD, largest),
        library.mallopt(_TRIM_THRESHOLD, 2 * largest),
    ]
    return all(set_both)


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False
