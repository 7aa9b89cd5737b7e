"""Memory of one step that the next one uses again."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

import keras

# Of mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: Where glibc's own rule ends on 64 bits: the larger arrays a program frees, up to this size, the
#: larger those that it serves from its heap; twice as much may lie free at the heap's end.
_LARGEST = 32 << 20
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
    """Sets glibc's thresholds to where its own rule would bring them; returns whether it did.

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
