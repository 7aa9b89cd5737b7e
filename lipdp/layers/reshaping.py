"""Blocks of positions become channels, and channels become blocks of positions."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers.base import NonExpansiveLayer, divisible, sample_shape
from lipdp.layers.pooling import check_rank
from lipdp.numerics import count
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpaceToDepth(NonExpansiveLayer):
    """(n, H, W, C) to (n, H / b, W / b, b b C), also called pixel unshuffle; loses nothing.

    A permutation of the entries, so norms are preserved forward and backward. The new channels are
    ordered by row in the block, column in the block, old channel.

    Args:
        block_size: Side b of a block; must divide both sides of the image.
    """

    block_size = Setting[int]()

    def __init__(self, block_size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block_size = count("block_size", block_size)

    def build(self, input_shape: Any) -> None:
        """Checks that the blocks fit."""
        shape = sample_shape(input_shape)
        check_rank(shape, 3)
        if shape[0] % self.block_size or shape[1] % self.block_size:
            raise InvalidValue(
                f"Both sides of the image must be divisible by {self.block_size}",
                received=shape,
                fix="Pad the image, as by keras.layers.ZeroPadding2D, or use another block_size",
            )

    def call(self, inputs: Any) -> Any:
        """The moved entries."""
        b, shape = self.block_size, sample_shape(inputs.shape)
        blocks = ops.reshape(inputs, (-1, shape[0] // b, b, shape[1] // b, b, shape[2]))
        moved = ops.transpose(blocks, (0, 1, 3, 2, 4, 5))
        return ops.reshape(moved, (-1, *self.compute_output_shape(inputs.shape)[1:]))

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """Smaller sides, more channels."""
        rows, columns, channels = sample_shape(input_shape)
        b = self.block_size
        return (input_shape[0], rows // b, columns // b, channels * b * b)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "block_size": self.block_size}


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
