"""Memory of one step that the next one uses again."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

import keras

# Of mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: Larger arrays get pages of their own: kept in the heap they let memory grow by 200 MB; glibc's
#: rule may go to 32 MiB. Twice this may lie free at the end of the heap.
_LARGEST = 8 << 20
_CHOSEN_BY_USER = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


class HeapReuse(keras.callbacks.Callback):
    """Lets a step's arrays lie in memory that the step before gave back.

    TensorFlow's reader of batches that are made in Python ends glibc's own rule for that, for the
    whole process: from then on each array above 128 KiB gets new pages from the system and gives
    them back. For a small network on two cores that was two fifths of a private step's time. Other
    backends and C libraries, and settings of the user's own, are left alone.
    """

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """At the first batch of an epoch its reader is there."""
        if batch == 0 and keras.backend.backend() == "tensorflow":
            serve_from_heap(os.environ)


def serve_from_heap(environment: Mapping[str, str]) -> bool:
    """Sets glibc's thresholds for arrays of up to 8 MiB; returns whether it did.

    Args:
        environment: Variables that may say what the user wants instead.
    """
    if any(name in environment for name in _CHOSEN_BY_USER) or not _is_glibc():
        return False
    library = ctypes.CDLL(None)
    set_both = [
        library.mallopt(_MMAP_THRESHOLD, _LARGEST),
        library.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST),
    ]
    return all(set_both)


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False
