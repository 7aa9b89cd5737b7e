"""Euclidean norms over all positions."""

from __future__ import annotations

import math
from typing import Any, final

import keras
from keras import ops

from lipdp.layers._global_pooling import GlobalPooling
from lipdp.layers._smooth_norm import smooth_norm


@final
@keras.saving.register_keras_serializable(package="lipdp")
class GlobalL2NormPooling(GlobalPooling):
    """Euclidean norm of each channel over all positions, (n, ..., C) to (n, C).

    Guarantees:
        * ``||y|| <= ||x||`` and the Jacobian is at most 1: row c is ``x_c / max(||x_c||, m)``, and
          the channels do not meet.
        * The derivative is finite everywhere and 0 at an all-zero channel. Norms below m, 2^-50
          (2^-400 in float64), are squared instead of rooted, to that end.
    """

    def call(self, inputs: Any) -> Any:
        """One norm for each channel."""
        return smooth_norm(ops.sum(ops.square(inputs), axis=self._axes))

    def backward_bound(self, x: float, g: float) -> float:
        """``g``; none where squares may overflow."""
        return g if x < math.inf else math.inf

    def lipschitz(self, x: float) -> float:
        """1."""
        return 1.0
