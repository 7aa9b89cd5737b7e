"""The batches of CIFAR-10: Python pickles, of which nothing is executed."""

from __future__ import annotations

import io
import pickle
from typing import Any

#: What an array of NumPy needs to be rebuilt, in files of old and new versions.
_ALLOWED = frozenset(
    {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
    }
)


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no array")
        if name == "_reconstruct":
            module = "numpy.core.multiarray" if _old_numpy() else "numpy._core.multiarray"
        return super().find_class(module, name)


def read_pickle(content: bytes) -> Any:
    """Rebuilds numbers, text, lists, dicts and NumPy arrays; everything else is refused.

    Args:
        content: A pickle; text of Python 2 becomes bytes.

    Raises:
        UnpicklingError: If it names anything that is no array.
    """
    return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()


def _old_numpy() -> bool:
    import numpy as np

    return int(np.__version__.split(".")[0]) < 2
