"""Rules of the plain convolution layers.

The rounding slack is that of inner products of plain arithmetic in any order of summation; the
Winograd and Fourier algorithms of accelerator libraries are not covered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from lipdp.bounds.rules.activations import activation_bounds
from lipdp.bounds.rules.affine import (
    AffineBounds,
    affine_slack,
    present_operator,
    projection_of,
    trained_flags,
)
from lipdp.bounds.rules.base import LayerBounds, Rules, Weightless
from lipdp.bounds.rules.dense import bias_bound, check_plain_kernel
from lipdp.bounds.rules.pooling import check_channels_last
from lipdp.bounds.shapes import Shapes
from lipdp.errors import UnsupportedLayer
from lipdp.layers.convolution import ConvGeometry, per_axis
from lipdp.layers.windows import PADDINGS, Windows
from lipdp.numerics import times
from lipdp.projections import ChannelBall


@dataclass(frozen=True)
class _Kernel:
    """A kernel of a layer and the convolution that it is used in."""

    variable: Any
    geometry: ConvGeometry
    depthwise: bool = False

    def values(self) -> np.ndarray:
        """As the geometry reads it: a depthwise one has groups of one channel."""
        values = np.asarray(keras.ops.convert_to_numpy(self.variable))
        return values.reshape(*values.shape[:-2], 1, -1) if self.depthwise else values

    def present(self) -> float:
        """Norm of the convolution by the kernel of now."""
        return self.geometry.norm(self.values())

    def absolute(self) -> float:
        """The same with all entries of the kernel made positive."""
        return self.geometry.absolute_norm(self.values())

    def operator(self) -> float:
        """Norm of it for every kernel that training can visit, the present one included.

        ``spectral_bound`` is about the whole matrix, of which a group has some columns and a
        channel of a depthwise kernel some rows.
        """
        if not self.variable.trainable:
            return self.present()
        projection = projection_of(self.variable)
        if projection is None:
            return math.inf
        norm = projection.spectral_bound(self.variable.shape)
        if self.depthwise and isinstance(projection, ChannelBall):
            channels = projection.axis in (-2, len(self.variable.shape) - 2)
            norm = projection.norm_bound if channels else norm
        present = self.geometry.counting_norm(self.values())
        return max(times(math.sqrt(self.geometry.kappa), norm), present)

    def side(self, operator: float) -> float:
        """``(|| |A| ||_2 / operator)^2``, at most the smaller side of a block of the matrix."""
        values = self.values()
        within = math.prod(values.shape[:-1])
        least = float(min(within, values.shape[-1] // self.geometry.groups))
        if self.variable.trainable or operator == 0.0:
            return least
        return max(1.0, (self.geometry.absolute_norm(values) / operator) ** 2)

    def inner(self) -> int:
        """Length of the longest inner product, forward or backward."""
        values = self.values()
        out = values.shape[-1] // self.geometry.groups
        return max(math.prod(values.shape[:-1]), self.geometry.taps * max(out, values.shape[-2]))


def _affine(
    layer: Any,
    kernel: _Kernel,
    *,
    bias: Any,
    positions: int,
    trained: tuple[bool, ...],
    after: LayerBounds,
) -> AffineBounds:
    operator = kernel.operator()
    summed = max(positions, kernel.geometry.positions)
    return AffineBounds(
        operator=operator,
        present=present_operator(kernel.present, kernel.absolute, bias, kernel.inner()),
        reach=math.sqrt(kernel.geometry.kappa),
        bias=bias_bound(bias),
        positions=positions,
        trained=trained,
        activation=after,
        slack=affine_slack(layer, kernel.inner(), summed, kernel.side(operator)),
    )


def _convolution(layer: Any, shapes: Shapes) -> LayerBounds:
    """``sqrt(kappa) ||W||_2``, or for a frozen kernel the Fourier bound if it is smaller."""
    # As backends do, and not by attributes, which may have changed since the kernel was made.
    groups = shapes.input[-1] // layer.kernel.shape[-2]
    geometry = ConvGeometry(_windows(layer, layer.kernel, shapes.input), groups)
    return _from_kernel(layer, shapes, _Kernel(layer.kernel, geometry))


def _transposed(layer: Any, shapes: Shapes) -> LayerBounds:
    """The convolution that it transposes slides over the output and makes the input."""
    geometry = ConvGeometry(_windows(layer, layer.kernel, shapes.output))
    counts = tuple(axis.count for axis in geometry.windows)
    if layer.output_padding is not None or counts != shapes.input[:-1]:
        raise UnsupportedLayer(
            f"The layer {layer.name!r} pads its output in a way that has no proved bound",
            received=layer.output_padding,
            fix="Leave output_padding out",
        )
    return _from_kernel(layer, shapes, _Kernel(layer.kernel, geometry))


def _depthwise(layer: Any, shapes: Shapes) -> LayerBounds:
    """``sqrt(kappa) max_c ||K_c||``, K_c with all its multipliers."""
    windows = _windows(layer, layer.kernel, shapes.input)
    geometry = ConvGeometry(windows, groups=shapes.input[-1])
    kernel = _Kernel(layer.kernel, geometry, depthwise=True)
    return _from_kernel(layer, shapes, kernel)


def _from_kernel(layer: Any, shapes: Shapes, kernel: _Kernel) -> LayerBounds:
    return _affine(
        layer,
        kernel,
        bias=layer.bias,
        positions=shapes.positions,
        trained=trained_flags(layer.kernel, layer.bias),
        after=activation_bounds(layer.activation, shapes, layer),
    )


@dataclass(frozen=True)
class _Chain:
    """One layer behind the other; the first is linear, and its bounds hold as computed forward."""

    first: AffineBounds
    second: LayerBounds
    linear_backward: bool = True

    def forward_bound(self, x: float) -> float:
        return self.second.forward_bound(self.first.forward_bound(x))

    def backward_bound(self, x: float, g: float) -> float:
        inner = self.second.backward_bound(self.first.forward_bound(x), g)
        return self.first.backward_bound(x, inner)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        between = self.first.forward_bound(x)
        inner = self.second.backward_bound(between, g)
        return self.first.parameter_bounds(x, inner) + self.second.parameter_bounds(between, g)

    def lipschitz(self, x: float) -> float:
        between = self.first.inference_bound(x)
        return times(self.first.lipschitz(x), self.second.lipschitz(between))

    def rounding(self, unit: float) -> float:
        return (1.0 + self.first.rounding(unit)) * (1.0 + self.second.rounding(unit)) - 1.0

    def inference_bound(self, x: float) -> float:
        return self.second.inference_bound(self.first.inference_bound(x))

    def inference_error(self, x: float, unit: float) -> float:
        own = self.first.inference_error(x, unit)
        between = self.first.inference_bound(x) + own
        return times(self.second.lipschitz(between), own) + self.second.inference_error(
            between, unit
        )


def _separable(layer: Any, shapes: Shapes) -> LayerBounds:
    """A depthwise convolution, then one of window 1."""
    windows = _windows(layer, layer.depthwise_kernel, shapes.input)
    geometry = ConvGeometry(windows, groups=shapes.input[-1])
    depthwise = _Kernel(layer.depthwise_kernel, geometry, depthwise=True)
    single = ConvGeometry(tuple(Windows(axis.count, 1) for axis in windows))
    pointwise = _Kernel(layer.pointwise_kernel, single)
    first = _affine(
        layer,
        depthwise,
        bias=None,
        positions=geometry.positions,
        trained=trained_flags(layer.depthwise_kernel),
        after=Weightless(),
    )
    second = _affine(
        layer,
        pointwise,
        bias=layer.bias,
        positions=shapes.positions,
        trained=trained_flags(layer.pointwise_kernel, layer.bias),
        after=activation_bounds(layer.activation, shapes, layer),
    )
    return _Chain(first, second)


def _windows(layer: Any, kernel: Any, shape: tuple[int, ...]) -> tuple[Windows, ...]:
    check_channels_last(layer)
    check_plain_kernel(layer)
    if layer.padding not in PADDINGS:
        raise UnsupportedLayer(
            f"The padding of layer {layer.name!r} has no proved bound",
            received=layer.padding,
            fix="Use 'same' or 'valid'",
        )
    dilations = per_axis(layer.dilation_rate, layer.rank)
    axes = zip(shape[:-1], kernel.shape[:-2], layer.strides, dilations, strict=True)
    return tuple(Windows(n, k, s, d, layer.padding) for n, k, s, d in axes)


RULES: Rules = MappingProxyType(
    {
        keras.layers.Conv1D: _convolution,
        keras.layers.Conv2D: _convolution,
        keras.layers.Conv3D: _convolution,
        keras.layers.Conv1DTranspose: _transposed,
        keras.layers.Conv2DTranspose: _transposed,
        keras.layers.Conv3DTranspose: _transposed,
        keras.layers.DepthwiseConv1D: _depthwise,
        keras.layers.DepthwiseConv2D: _depthwise,
        keras.layers.SeparableConv1D: _separable,
        keras.layers.SeparableConv2D: _separable,
    }
)
