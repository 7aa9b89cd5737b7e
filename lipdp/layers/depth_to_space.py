"""Moves channels into blocks of positions."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.layers._pooling import check_rank
from lipdp.layers._shapes import divisible, sample_shape
from lipdp.layers.base import NonExpansiveLayer
from lipdp.numerics import count
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class DepthToSpace(NonExpansiveLayer):
    """(n, H, W, b b C) to (n, b H, b W, C), the inverse of ``SpaceToDepth``: a permutation.

    Args:
        block_size: Side b of a block; its square must divide the channels.
    """

    block_size = Setting[int]()

    def __init__(self, block_size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block_size = count("block_size", block_size)

    def build(self, input_shape: Any) -> None:
        """Checks that the channels make whole blocks."""
        check_rank(sample_shape(input_shape), 3)
        divisible(input_shape, self.block_size**2)

    def call(self, inputs: Any) -> Any:
        """The moved entries."""
        b, shape = self.block_size, sample_shape(inputs.shape)
        blocks = ops.reshape(inputs, (-1, shape[0], shape[1], b, b, shape[2] // (b * b)))
        moved = ops.transpose(blocks, (0, 1, 3, 2, 4, 5))
        return ops.reshape(moved, (-1, *self.compute_output_shape(inputs.shape)[1:]))

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """Greater sides, fewer channels."""
        rows, columns, channels = sample_shape(input_shape)
        b = self.block_size
        return (input_shape[0], rows * b, columns * b, channels // (b * b))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "block_size": self.block_size}
