"""Convolutions with a near-orthogonal kernel: their proved norms, and one class a rank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers.base import sample_shape
from lipdp.layers.dense import ProjectedInitializer
from lipdp.layers.linear import LinearLayer
from lipdp.layers.pooling import check_rank
from lipdp.layers.windows import Windows, coverage, windows_of
from lipdp.numerics import count, gamma, product_slack, times
from lipdp.projections import (
    BjorckProjection,
    ChannelBall,
    Projection,
    circular_norm_bound,
    circular_norm_work,
    frobenius_norm_bound,
    spectral_norm_bound,
)
from lipdp.setting import Setting

#: Multiplications beyond which the Fourier bound would take more than a second or two. With strides
#: the matrices are fewer and wider, which takes less time for each.
_AFFORDABLE = 5e8
_AFFORDABLE_WITH_STRIDES = 1.5e9


@dataclass(frozen=True)
class ConvGeometry:
    """A convolution of a channels-last tensor, or the transpose of one.

    With P(x) the matrix of all patches, (output positions, taps and channels), the convolution by a
    kernel K is ``P(x) K`` and ``||P(x)||_F <= sqrt(kappa) ||x||``. So for K as a matrix of shape
    (taps C_in, C_out):

    * its norm is at most ``sqrt(kappa) ||K||_2``;
    * the gradient of K, ``P(x)^T G``, has norm at most ``sqrt(kappa) ||x|| ||G||``.

    A transposed convolution has the norm of the convolution that it transposes, and the gradient
    ``P(u)^T x`` at a cotangent u. Groups act on separate channels: the greatest norm counts.

    Attributes:
        windows: Of each spatial axis, on the side of the tensor that they slide over.
        groups: Blocks of channels that do not mix.
    """

    windows: tuple[Windows, ...]
    groups: int = 1

    @property
    def kappa(self) -> int:
        """Greatest number of (window, tap) pairs that read one position."""
        return coverage(self.windows)

    @property
    def taps(self) -> int:
        """Positions that one window reads."""
        return math.prod(axis.window for axis in self.windows)

    @property
    def positions(self) -> int:
        """Number of windows."""
        return math.prod(axis.count for axis in self.windows)

    def norm(self, kernel: np.ndarray) -> float:
        """Proved norm of the convolution: the smaller of the two bounds."""
        return min(self.counting_norm(kernel), self.fourier_norm(kernel))

    def counting_norm(self, kernel: np.ndarray) -> float:
        """``sqrt(kappa) ||K||_2``, the simple bound."""
        return math.sqrt(self.kappa) * max(map(spectral_norm_bound, self.blocks(kernel)))

    def absolute_norm(self, kernel: np.ndarray) -> float:
        """Bound of the norm with all kernel entries made positive: ``sqrt(kappa) ||K||_F``."""
        return math.sqrt(self.kappa) * max(map(frobenius_norm_bound, self.blocks(kernel)))

    def fourier_norm(self, kernel: np.ndarray) -> float:
        """Bound by circular convolutions on tori; infinite where it would take long.

        Put the axis on a circle of N positions, with zeros behind it. With p positions added in
        front and q behind, a window that starts before the axis or ends behind it reads zeros where
        N is at least ``n + max(p, q)``. Windows start at positions of their own, as ``(count - 1) s
        < n``. So a zero-padded convolution is a restriction of the circular one: of its rows at
        every s-th position, where s divides N, and of all its rows for every N. Backends put one
        half of the padding in front, or of an odd number the smaller or the larger part.

        With circular padding N is n, or where a window is longer a multiple of it: what is repeated
        c times is of norm ``sqrt(c)`` times its own, before the map and behind. The windows start
        at multiples of ``gcd(s, n)``.

        The smaller one of the bounds with and without strides counts.
        """
        ones = (1,) * len(self.windows)
        plain = self._on_torus(kernel, tuple(map(_whole_circle, self.windows)), ones)
        strides = tuple(map(_spacing, self.windows))
        if strides == ones:
            return plain
        return min(plain, self._on_torus(kernel, tuple(map(_circle, self.windows)), strides))

    def _on_torus(
        self, kernel: np.ndarray, torus: tuple[int, ...], strides: tuple[int, ...]
    ) -> float:
        dilation = tuple(axis.dilation for axis in self.windows)
        work = circular_norm_work(
            kernel.shape, torus, strides=strides, dilation=dilation, groups=self.groups
        )
        if work > (_AFFORDABLE_WITH_STRIDES if max(strides) > 1 else _AFFORDABLE):
            return math.inf
        values = np.ascontiguousarray(kernel, dtype=np.float64)
        return _fourier_norm(values.tobytes(), values.shape, torus, strides, dilation, self.groups)

    def blocks(self, kernel: np.ndarray) -> list[np.ndarray]:
        """The kernel of each group."""
        return np.split(kernel, self.groups, axis=-1)


def _spacing(axis: Windows) -> int:
    """Windows of the circle start at the multiples of this."""
    return math.gcd(axis.stride, axis.size) if axis.padding == "circular" else axis.stride


def _whole_circle(axis: Windows) -> int:
    """Positions of a circle on which windows of any stride read what they read on the axis."""
    if axis.padding == "circular":
        return axis.size * -(-axis.reach // axis.size)
    return axis.size + axis.total_padding


def _circle(axis: Windows) -> int:
    """The same, and a multiple of the stride: the least with ``n + max(p, q)`` and all taps."""
    if axis.padding == "circular":
        return _whole_circle(axis)
    total = axis.total_padding
    side = total if axis.padding == "causal" else total - total // 2
    return axis.stride * -(-max(axis.size + side, axis.reach) // axis.stride)


@lru_cache(maxsize=32)
def _fourier_norm(
    data: bytes,
    shape: tuple[int, ...],
    torus: tuple[int, ...],
    strides: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> float:
    """Kept, because the bounds of a frozen kernel ask for it many times."""
    kernel = np.frombuffer(data, dtype=np.float64).reshape(shape)
    return circular_norm_bound(kernel, torus, strides=strides, dilation=dilation, groups=groups)


def per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """One number for all axes, or one for each, as a tuple."""
    return tuple(value) if isinstance(value, list | tuple) else (value,) * rank


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
        return windows_of(shape, self.kernel_size, self.strides, self.padding, self.dilation_rate)

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


class SpectralTransposedConvolution(KernelLayer):
    """The transpose of ``conv(., P) / sqrt(kappa)``, which maps the output back to the input.

    Args:
        filters: Channels of the output.
        kernel_size: Taps, an integer or one for each axis.
        strides: Output positions for each input position, likewise.
        padding: Of the convolution that is transposed: "same" (the output is ``strides`` times as
            long) or "valid" (and longer by what the windows reach beyond).
    """

    filters = Setting[int]()
    paddings = ("same", "valid")

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "same", **kwargs: Any
    ) -> None:
        super().__init__(kernel_size, strides, padding, BjorckProjection(), **kwargs)
        self.filters = count("filters", filters)

    def build(self, input_shape: Any) -> None:
        """Lays out the windows over the output and creates the kernel, inside its set."""
        shape = sample_shape(input_shape)
        check_rank(shape, self.rank + 1)
        sizes = self._output_sizes(shape)
        windows = windows_of(sizes, self.kernel_size, self.strides, self.padding)
        self._geometry = ConvGeometry(windows)
        self._add_kernel((*self.kernel_size, self.filters, shape[-1]))

    def call(self, inputs: Any) -> Any:
        """``inputs`` of shape (n, ..., C) to (n, ..., filters)."""
        return ops.conv_transpose(
            inputs,
            self.scaled_kernel(),
            strides=self.strides,
            padding=self.padding,
            data_format="channels_last",
        )

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """Strides times as many positions, and more for "valid"."""
        return (input_shape[0], *self._output_sizes(sample_shape(input_shape)), self.filters)

    def _output_sizes(self, shape: tuple[int, ...]) -> list[int]:
        axes = zip(shape, self.kernel_size, self.strides, strict=False)
        longer = self.padding == "valid"
        return [n * s + (max(k - s, 0) if longer else 0) for n, k, s in axes]

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "filters": self.filters}


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralConv1D(SpectralConvolution):
    """As ``SpectralConv2D``, of sequences (n, steps, C); ``padding`` may be "causal", too."""

    rank = 1
    paddings = ("same", "valid", "causal", "circular")


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralConv2D(SpectralConvolution):
    """``conv(x, P) / sqrt(kappa)`` of images (n, rows, columns, C), P near orthogonal; no bias.

    The kernel P of shape (*kernel_size, C / groups, filters), read as a matrix of its last axis
    against all others, has ``||P||_2 <= 1``; kappa is the greatest number of (window, tap) pairs
    that read one position. The division by the root of kappa, and not by an average over positions,
    makes the map 1-Lipschitz.

    Args:
        filters: Channels of the output.
        kernel_size: Taps, an integer or one for each axis.
        strides: Distance of two windows, likewise.
        padding: "same" (zeros around), "valid" or "circular"; of sequences "causal" (zeros in
            front), too.
        dilation_rate: Distance of two taps, likewise.
        groups: Blocks of channels that do not mix.

    Guarantees:
        * Forward and backward it grows no norm; the kernel gradient of a sample has Frobenius
          norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    rank = 2


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralConv3D(SpectralConvolution):
    """As ``SpectralConv2D``, of volumes (n, depth, rows, columns, C)."""

    rank = 3


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralConv1DTranspose(SpectralTransposedConvolution):
    """As ``SpectralConv2DTranspose``, of sequences (n, steps, C)."""

    rank = 1


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralConv2DTranspose(SpectralTransposedConvolution):
    """The transpose of ``conv(., P) / sqrt(kappa)`` of images: upsampling by strides; no bias.

    The kernel P of shape (*kernel_size, filters, C), read as a matrix of its last axis against all
    others, has ``||P||_2 <= 1``; kappa is that of the convolution that is transposed.

    Args:
        filters: Channels of the output.
        kernel_size: Taps, an integer or one for each axis.
        strides: Output positions for each input position, likewise.
        padding: "same" or "valid", of the convolution that is transposed.

    Guarantees:
        * Forward and backward it grows no norm; the kernel gradient of a sample has Frobenius
          norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    rank = 2


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralConv3DTranspose(SpectralTransposedConvolution):
    """As ``SpectralConv2DTranspose``, of volumes (n, depth, rows, columns, C)."""

    rank = 3


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
        return windows_of(shape, self.kernel_size, self.strides, self.padding)

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
