"""Sorts all channels."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.layers._shapes import sample_shape
from lipdp.layers.base import NonExpansiveLayer


@final
@keras.saving.register_keras_serializable(package="lipdp")
class FullSort(NonExpansiveLayer):
    """Sorts the last axis in ascending order.

    The derivative is a permutation, at ties too, so norms are preserved forward and backward.
    """

    def build(self, input_shape: Any) -> None:
        """Checks that there is an axis to sort."""
        sample_shape(input_shape)

    def call(self, inputs: Any) -> Any:
        """The sorted channels, same shape."""
        return ops.sort(inputs, axis=-1)
