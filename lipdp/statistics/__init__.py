"""Private statistics: means, scales and whitenings of private rows, and the layers made of them.

The mechanisms need no Keras; the layers are imported when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lipdp.statistics.kronecker import private_kronecker_whitening
from lipdp.statistics.mechanism import (
    private_counts,
    private_mean_and_scale,
    private_mean_and_whitening,
)

if TYPE_CHECKING:
    from lipdp.statistics.layers import (
        PrivateKroneckerWhitening,
        PrivateStandardization,
        PrivateWhitening,
    )

_LAYERS = frozenset({"PrivateKroneckerWhitening", "PrivateStandardization", "PrivateWhitening"})

__all__ = [
    "PrivateKroneckerWhitening",
    "PrivateStandardization",
    "PrivateWhitening",
    "private_counts",
    "private_kronecker_whitening",
    "private_mean_and_scale",
    "private_mean_and_whitening",
]


def __getattr__(name: str) -> Any:
    if name in _LAYERS:
        return getattr(importlib.import_module("lipdp.statistics.layers"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
