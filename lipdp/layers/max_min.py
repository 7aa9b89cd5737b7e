"""Sorts the two halves of the channels against each other."""

from __future__ import annotations

from typing import Any, final

import keras

from lipdp.layers._pairs import sort_halves, with_permutation
from lipdp.layers._shapes import divisible
from lipdp.layers.base import NonExpansiveLayer


@final
@keras.saving.register_keras_serializable(package="lipdp")
class MaxMin(NonExpansiveLayer):
    """``[max(a, b), min(a, b)]`` for the halves a, b of the last axis (of even size).

    The derivative is a permutation, at ties too, so norms are preserved forward and backward.
    """

    def build(self, input_shape: Any) -> None:
        """Checks that there are two halves."""
        divisible(input_shape, 2)

    def call(self, inputs: Any) -> Any:
        """The ordered halves, same shape."""
        return with_permutation(inputs, sort_halves)
