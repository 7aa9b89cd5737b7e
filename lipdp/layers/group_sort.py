"""Sorts small groups of channels."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.layers._pairs import sort_neighbours, with_permutation
from lipdp.layers._shapes import divisible
from lipdp.layers.base import NonExpansiveLayer
from lipdp.numerics import count
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class GroupSort(NonExpansiveLayer):
    """Sorts neighbouring channels of the last axis, group by group, in ascending order.

    The derivative is a permutation, at ties too, so norms are preserved forward and backward.
    Source: C. Anil, J. Lucas, R. Grosse, Sorting out Lipschitz function approximation, ICML 2019.

    Args:
        group_size: Channels a group; must divide the last axis.
    """

    group_size = Setting[int]()

    def __init__(self, group_size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group_size = count("group_size", group_size)

    def build(self, input_shape: Any) -> None:
        """Checks that the groups fit."""
        divisible(input_shape, self.group_size)

    def call(self, inputs: Any) -> Any:
        """The sorted channels, same shape."""
        if self.group_size == 2:
            return with_permutation(inputs, sort_neighbours)
        grouped = (-1, *inputs.shape[1:-1], inputs.shape[-1] // self.group_size, self.group_size)
        ordered = ops.sort(ops.reshape(inputs, grouped), axis=-1)
        return ops.reshape(ordered, (-1, *inputs.shape[1:]))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "group_size": self.group_size}
