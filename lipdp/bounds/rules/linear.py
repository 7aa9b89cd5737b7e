"""Rules of plain dense and convolution layers: bounds of ``activation(A(W) x + b)``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from lipdp.bounds.precision import usable, working_unit
from lipdp.bounds.rules.activations import activation_bounds
from lipdp.bounds.rules.base import (
    LayerBounds,
    Rules,
    Shapes,
    Weightless,
    projection_of,
    weight_bound,
)
from lipdp.bounds.rules.pooling import check_channels_last
from lipdp.errors import UnsupportedLayer
from lipdp.layers.convolution import ConvGeometry, per_axis
from lipdp.layers.windows import PADDINGS, Windows, windows_of
from lipdp.numerics import gamma, product_slack, times
from lipdp.projections import ChannelBall, frobenius_norm_bound, spectral_norm_bound


@dataclass(frozen=True)
class Present:
    """The linear operator A of now, each number computed when it is asked for.

    Attributes:
        norm: Bound of ``||A||_2``.
        absolute: Bound of ``|| |A| ||_2``, with all its entries made positive.
        bias: Bound of ``||b||``, 0 without a bias.
        roundings: Successive roundings of one entry of ``A x + b``.
    """

    norm: Callable[[], float]
    absolute: Callable[[], float]
    bias: Callable[[], float]
    roundings: int


def present_operator(
    norm: Callable[[], float], absolute: Callable[[], float], bias: Any, inner: int
) -> Present:
    """The operator of now, of which each number is computed at most once.

    Args:
        norm: As in ``Present``.
        absolute: As there.
        bias: The variable, or None.
        inner: Length of the longest inner product forward.
    """

    def bias_norm() -> float:
        return 0.0 if bias is None else frobenius_norm_bound(keras.ops.convert_to_numpy(bias))

    # One rounding more for the bias, and one to spare.
    return Present(cache(norm), cache(absolute), cache(bias_norm), inner + 2)


@dataclass(frozen=True)
class AffineBounds:
    """A linear operator A(W) on a sample's tensor, a bias repeated at S positions, an activation.

    ``||A x|| <= ||A||_2 ||x||``. The gradient of W is ``P(x)^T G`` where the matrix P(x) of patches
    has Frobenius norm at most ``reach ||x||``. A bias repeated at S positions has norm ``sqrt(S)
    ||b||`` and, by Cauchy-Schwarz, gradient at most ``sqrt(S) ||G||``.

    Attributes:
        operator: Bound of ``||A(W)||_2`` for every W that training can visit.
        present: The operator of now.
        reach: Bound of ``||P(x)||_F / ||x||``; 1 for a dense layer.
        bias: Bound of ``||b||``, 0 without a bias.
        positions: Number S of positions of the output.
        trained: For the kernel, and for the bias if there is one, whether it is trained.
        activation: What follows.
        slack: Relative rounding slack of all products, see ``affine_slack``.
    """

    operator: float
    present: Present
    reach: float
    bias: float
    positions: int
    trained: tuple[bool, ...]
    activation: LayerBounds
    slack: float
    linear_backward: bool = True

    def forward_bound(self, x: float) -> float:
        return self.activation.forward_bound(self._seen(x))

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.operator, self.activation.backward_bound(self._seen(x), g))

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        inner = self.activation.backward_bound(self._seen(x), g)
        bounds = [times(self.reach, x, inner), times(math.sqrt(self.positions), inner)]
        return [b for b, trained in zip(bounds, self.trained, strict=False) if trained]

    def lipschitz(self, x: float) -> float:
        return times(self.present.norm(), self.activation.lipschitz(self._seen_now(x)))

    def rounding(self, unit: float) -> float:
        # Of the activation, and of the products backward; those forward are in what it sees.
        return (1.0 + self.slack) * (1.0 + self.activation.rounding(unit)) - 1.0

    def inference_bound(self, x: float) -> float:
        return self.activation.inference_bound(self._seen_now(x))

    def inference_error(self, x: float, unit: float) -> float:
        """The products err by ``gamma (|A| |x| + |b|)``, which the activation multiplies.

        What it sees is bounded all the same where its own output has a ceiling.
        """
        now = self.present
        products = times(now.absolute(), x) + math.sqrt(self.positions) * now.bias()
        products = times(gamma(now.roundings, unit), products)
        seen = usable(self._seen_now(x) + products, unit)
        inherited = times(self.activation.lipschitz(seen), products)
        return inherited + self.activation.inference_error(seen, unit)

    def _seen_now(self, x: float) -> float:
        """Bound of the norm of what the activation sees, exactly computed, at present weights."""
        return times(self.present.norm(), x) + math.sqrt(self.positions) * self.present.bias()

    def _seen(self, x: float) -> float:
        """Bound of the norm of what the activation sees, as computed: its slope depends on it."""
        exact = times(self.operator, x) + math.sqrt(self.positions) * self.bias
        return times(exact, 1.0 + self.slack)


def affine_slack(layer: Any, inner: int, positions: int, side: float) -> float:
    """Relative rounding slack of the products of an affine layer, forward and backward.

    Args:
        layer: The layer, whose precision is probed.
        inner: Length of the longest inner product.
        positions: Number of positions, over which the gradients of kernel and bias sum.
        side: ``|| |A| ||_2 <= sqrt(side) ||A||``, with the bound of A that is used.
    """
    # Two roundings more for the bias, and some to spare.
    return product_slack(max(inner, positions) + 8, side, working_unit(layer))


def trained_flags(*variables: Any) -> tuple[bool, ...]:
    """For each variable that is not None, whether it is trained."""
    return tuple(bool(v.trainable) for v in variables if v is not None)


def _dense(layer: Any, shapes: Shapes) -> LayerBounds:
    """On the last axis, at each position: the operator has norm ``||W||_2``."""
    check_plain_kernel(layer)
    fan_in, units = layer.kernel.shape
    return AffineBounds(
        operator=weight_bound(layer.kernel, spectral_norm_bound),
        present=present_operator(
            lambda: spectral_norm_bound(keras.ops.convert_to_numpy(layer.kernel)),
            lambda: frobenius_norm_bound(keras.ops.convert_to_numpy(layer.kernel)),
            layer.bias,
            fan_in,
        ),
        reach=1.0,
        bias=bias_bound(layer.bias),
        positions=shapes.positions,
        trained=trained_flags(layer.kernel, layer.bias),
        activation=activation_bounds(layer.activation, shapes, layer),
        slack=affine_slack(layer, fan_in, shapes.positions, min(fan_in, units)),
    )


def bias_bound(bias: Any) -> float:
    """Bound of the norm of a plain layer's bias, 0 for None."""
    return 0.0 if bias is None else weight_bound(bias, frobenius_norm_bound)


def check_plain_kernel(layer: Any) -> None:
    """Refuses kernels that Keras replaces by something else.

    Raises:
        UnsupportedLayer: If the layer has LoRA or quantized weights.
    """
    if getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None):
        raise UnsupportedLayer(
            f"The layer {layer.name!r} has LoRA or quantized weights and no proved bound",
            received=type(layer).__name__,
            fix="Use its plain weights",
        )


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
    return windows_of(shape[:-1], kernel.shape[:-2], layer.strides, layer.padding, dilations)


RULES: Rules = MappingProxyType(
    {
        keras.layers.Dense: _dense,
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
