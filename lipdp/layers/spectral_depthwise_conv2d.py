"""Depthwise convolution of images with bounded kernels."""

from __future__ import annotations

from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.layers._conv_geometry import ConvGeometry
from lipdp.layers._convolution import KernelLayer
from lipdp.layers._pooling import check_rank
from lipdp.layers._shapes import sample_shape
from lipdp.layers._windows import Windows
from lipdp.numerics import count
from lipdp.projections import ChannelBall
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralDepthwiseConv2D(KernelLayer):
    """Each channel convolved by kernels of its own, over ``sqrt(kappa)``; no bias.

    The kernel of shape (*kernel_size, C, depth_multiplier) keeps each channel's kernels, with all
    multipliers, at a Euclidean norm of at most 1. A 1x1 ``SpectralConv2D`` behind it makes a
    separable convolution.

    Args:
        kernel_size: Taps, an integer or one for each axis.
        depth_multiplier: Output channels M for each input channel.
        strides: Distance of two windows; on TensorFlow equal for both axes.
        padding: "same" (zeros around) or "valid".

    Guarantees:
        * Forward and backward it grows no norm; the kernel gradient of a sample has Frobenius
          norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    depth_multiplier = Setting[int]()
    rank = 2
    paddings = ("same", "valid")

    def __init__(
        self,
        kernel_size: Any,
        depth_multiplier: int = 1,
        strides: Any = 1,
        padding: str = "same",
        **kwargs: Any,
    ) -> None:
        super().__init__(kernel_size, strides, padding, ChannelBall(1.0), **kwargs)
        self.depth_multiplier = count("depth_multiplier", depth_multiplier)

    def build(self, input_shape: Any) -> None:
        """Lays out the windows and creates the kernel, inside its set."""
        shape = sample_shape(input_shape)
        check_rank(shape, 3)
        self._geometry = ConvGeometry(self._windows(shape), groups=shape[-1])
        self._add_kernel((*self.kernel_size, shape[-1], self.depth_multiplier))

    def _initializer(self) -> keras.initializers.Initializer:
        # Far outside its balls, so that each channel's kernel starts on its sphere.
        return keras.initializers.RandomNormal(stddev=100.0)

    def _windows(self, shape: tuple[int, ...]) -> tuple[Windows, ...]:
        axes = zip(shape, self.kernel_size, self.strides, strict=False)
        return tuple(Windows(n, k, s, padding=self.padding) for n, k, s in axes)

    def call(self, inputs: Any) -> Any:
        """``inputs`` of shape (n, rows, columns, C) to (n, ..., C depth_multiplier)."""
        return ops.depthwise_conv(
            inputs,
            self.scaled_kernel(),
            strides=self.strides,
            padding=self.padding,
            data_format="channels_last",
        )

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """One position for each window."""
        windows = self._windows(sample_shape(input_shape))
        channels = input_shape[-1] * self.depth_multiplier
        return (input_shape[0], *(axis.count for axis in windows), channels)

    def _values(self) -> np.ndarray:
        """As a kernel of C groups of one input channel."""
        kernel = super()._values()
        return kernel.reshape(*kernel.shape[:2], 1, -1)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "depth_multiplier": self.depth_multiplier}
