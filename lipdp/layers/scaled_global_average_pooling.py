"""Averages over all positions, scaled to keep norms."""

from __future__ import annotations

import math
from typing import Any, final

import keras
from keras import ops

from lipdp.layers._global_pooling import GlobalPooling


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ScaledGlobalAveragePooling(GlobalPooling):
    """Sum over all S positions divided by ``sqrt(S)``, (n, ..., C) to (n, C).

    Guarantees:
        * Linear and 1-Lipschitz: each channel's inner product with a unit vector (Cauchy-Schwarz).
          A tensor that is constant over positions keeps its norm.
    """

    def call(self, inputs: Any) -> Any:
        """One value for each channel."""
        return ops.sum(inputs, axis=self._axes) * (1.0 / math.sqrt(self._positions))
