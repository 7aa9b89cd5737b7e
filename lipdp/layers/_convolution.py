"""Convolutions whose trained kernel is near orthogonal as a matrix, shared by all ranks."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers._conv_geometry import ConvGeometry, per_axis
from lipdp.layers._dense import ProjectedInitializer
from lipdp.layers._linear import LinearLayer
from lipdp.layers._pooling import check_rank
from lipdp.layers._shapes import sample_shape
from lipdp.layers._windows import Windows
from lipdp.numerics import count, gamma, product_slack, times
from lipdp.projections import BjorckProjection, Projection
from lipdp.setting import Setting


class KernelLayer(LinearLayer):
    """A linear map ``A(P) / sqrt(kappa)``, P the trained kernel with ``||P||_2 <= 1``; no bias.

    P is read as a matrix (taps and channels, channels), depthwise as a block-diagonal one. A(P), a
    convolution or the transpose of one, has norm at most ``sqrt(kappa) ||P||_2``: the map grows no
    norm, for every stride. The bounds are about P itself, the variable that is trained and noised;
    training the rescaled kernel with them would make the noise ``sqrt(kappa)`` too small. Its
    gradient is that of A(P) over ``sqrt(kappa)``: at most (input norm) (cotangent norm).

    The rounding slack is that of inner products of plain arithmetic in any order of summation; the
    Winograd and Fourier algorithms of accelerator libraries are not covered.

    Args:
        kernel_size: Taps, an integer or one for each axis.
        strides: Distance of two windows, likewise.
        padding: One of ``paddings``.
        constraint: The set of P.
    """

    kernel_size = Setting[tuple[int, ...]]()
    strides = Setting[tuple[int, ...]]()
    padding = Setting[str]()
    rank: ClassVar[int]
    paddings: ClassVar[tuple[str, ...]] = ("same", "valid", "circular")

    def __init__(
        self,
        kernel_size: Any,
        strides: Any,
        padding: str,
        constraint: Projection,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_size = self._sizes("kernel_size", kernel_size)
        self.strides = self._sizes("strides", strides)
        self.padding = self._padding(padding)
        self.constraint = constraint

    def _sizes(self, name: str, value: Any) -> tuple[int, ...]:
        values = per_axis(value, self.rank)
        if len(values) != self.rank:
            raise InvalidValue(f"{name} must be one integer or {self.rank} of them", received=value)
        return tuple(count(name, v) for v in values)

    def _padding(self, padding: str) -> str:
        if padding not in self.paddings:
            raise InvalidValue(
                "There is no such padding",
                received=padding,
                fix=f"Use one of: {', '.join(self.paddings)}",
            )
        return padding

    def _initializer(self) -> keras.initializers.Initializer:
        """What the first kernel is drawn from, before its projection."""
        return keras.initializers.Orthogonal()

    def _add_kernel(self, shape: tuple[int, ...]) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=shape,
            initializer=ProjectedInitializer(self._initializer(), self.constraint),
            constraint=self.constraint,
        )
        self._scale = 1.0 / math.sqrt(self._geometry.kappa)

    def scaled_kernel(self) -> Any:
        """The kernel of the convolution that is computed, ``P / sqrt(kappa)``."""
        return ops.convert_to_tensor(self.kernel) * self._scale

    @property
    def weight(self) -> Any:
        """The kernel P."""
        return self.kernel

    def lipschitz(self, x: float) -> float:
        """Proved norm at the present kernel, by counting or by Fourier analysis."""
        return self._geometry.norm(self._values()) * self._scale * (1.0 + 2.0**-50)

    def inference_error(self, x: float, unit: float) -> float:
        """``gamma(n) || |A| || x``, n the length of the longest inner product."""
        kernel, geometry = self._values(), self._geometry
        absolute = geometry.absolute_norm(kernel) * self._scale * (1.0 + 2.0**-50)
        return times(gamma(self._inner() + 8, unit), absolute, x)

    def rounding(self, unit: float) -> float:
        """Slack of the longest inner product among forward, backward and kernel gradient."""
        kernel, geometry = self._values(), self._geometry
        within = math.prod(kernel.shape[:-1])
        side = float(min(within, kernel.shape[-1] // geometry.groups))
        if not self.trainable_variables and self._set_norm() > 0.0:
            absolute = geometry.absolute_norm(kernel) * self._scale
            side = max(side, (absolute / self._set_norm()) ** 2)
        products = product_slack(self._inner() + 8, side, unit)
        return max(products, gamma(geometry.positions + 8, unit))

    def _inner(self) -> int:
        """Length of the longest inner product, forward or backward."""
        kernel, geometry = self._values(), self._geometry
        out = kernel.shape[-1] // geometry.groups
        within = math.prod(kernel.shape[:-1])
        return max(within, geometry.kappa * out, geometry.taps * out)

    def _values(self) -> np.ndarray:
        """The kernel as the geometry reads it."""
        return self._present()

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
        }


class SpectralConvolution(KernelLayer):
    """``conv(x, P) / sqrt(kappa)`` over the axes between batch and channels.

    Args:
        filters: Channels of the output.
        kernel_size: Taps, an integer or one for each axis.
        strides: Distance of two windows, likewise.
        padding: One of ``paddings``.
        dilation_rate: Distance of two taps, likewise.
        groups: Blocks of channels that do not mix.
    """

    filters = Setting[int]()
    dilation_rate = Setting[tuple[int, ...]]()
    groups = Setting[int]()

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "same",
        dilation_rate: Any = 1,
        groups: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(kernel_size, strides, padding, BjorckProjection(), **kwargs)
        self.filters = count("filters", filters)
        self.dilation_rate = self._sizes("dilation_rate", dilation_rate)
        self.groups = count("groups", groups)

    def build(self, input_shape: Any) -> None:
        """Lays out the windows and creates the kernel, inside its set."""
        shape = sample_shape(input_shape)
        check_rank(shape, self.rank + 1)
        if shape[-1] % self.groups or self.filters % self.groups:
            raise InvalidValue(
                "The groups must divide the channels of input and output",
                received=(shape[-1], self.filters, self.groups),
            )
        self._geometry = ConvGeometry(self._windows(shape), self.groups)
        self._add_kernel((*self.kernel_size, shape[-1] // self.groups, self.filters))

    def _windows(self, shape: tuple[int, ...]) -> tuple[Windows, ...]:
        axes = zip(shape, self.kernel_size, self.strides, self.dilation_rate, strict=False)
        return tuple(Windows(n, k, s, d, self.padding) for n, k, s, d in axes)

    def call(self, inputs: Any) -> Any:
        """``inputs`` of shape (n, ..., C) to (n, ..., filters)."""
        padded, padding = self.padded(inputs)
        return ops.conv(
            padded,
            self.scaled_kernel(),
            strides=self.strides,
            padding=padding,
            data_format="channels_last",
            dilation_rate=self.dilation_rate,
        )

    def padded(self, x: Any) -> tuple[Any, str]:
        """The input with what Keras cannot pad, and the padding that is left to Keras."""
        if self.padding not in ("circular", "causal"):
            return x, self.padding
        totals = [axis.total_padding for axis in self._geometry.windows]
        if self.padding == "causal":
            return ops.pad(x, [(0, 0), *((t, 0) for t in totals), (0, 0)]), "valid"
        for axis, total in enumerate(totals, start=1):
            size = x.shape[axis]
            read = (np.arange(size + total) - total // 2) % size
            x = ops.take(x, read, axis=axis) if total else x
        return x, "valid"

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """One position for each window."""
        windows = self._windows(sample_shape(input_shape))
        return (input_shape[0], *(axis.count for axis in windows), self.filters)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "filters": self.filters,
            "dilation_rate": self.dilation_rate,
            "groups": self.groups,
        }
