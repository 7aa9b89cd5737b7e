"""Rules of activation functions and of the layers that apply them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
from keras import activations

from lipdp.bounds.rules import curves
from lipdp.bounds.rules.affine import projection_of
from lipdp.bounds.rules.base import LayerBounds, Rules, Weightless, enlarges
from lipdp.bounds.rules.curves import Curve, Pointwise
from lipdp.bounds.rules.scaling import as_computed
from lipdp.bounds.shapes import Shapes
from lipdp.errors import UnsupportedLayer
from lipdp.numerics import gamma, times
from lipdp.projections import MaxBall, greatest_entry_bound

_CURVES: Mapping[Callable[..., Any], Curve] = MappingProxyType(
    {
        activations.linear: curves.LINEAR,
        activations.relu: curves.RELU,
        activations.relu6: curves.clipped_relu(6.0),
        activations.leaky_relu: curves.leaky(0.2),
        activations.tanh: curves.TANH,
        activations.sigmoid: curves.SIGMOID,
        activations.hard_sigmoid: curves.HARD_SIGMOID,
        activations.sparse_sigmoid: curves.SPARSE_SIGMOID,
        activations.hard_tanh: curves.HARD_TANH,
        activations.softplus: curves.SOFTPLUS,
        activations.log_sigmoid: curves.LOG_SIGMOID,
        activations.softsign: curves.SOFTSIGN,
        activations.soft_shrink: curves.SOFT_SHRINK,
        activations.tanh_shrink: curves.TANH_SHRINK,
        activations.elu: curves.exponential_linear(1.0),
        activations.selu: curves.SELU,
        activations.celu: curves.CELU,
        activations.gelu: curves.GELU,
        activations.silu: curves.SILU,
        activations.hard_silu: curves.HARD_SILU,
        activations.mish: curves.MISH,
        activations.squareplus: curves.SQUAREPLUS,
        activations.sparse_plus: curves.SPARSE_PLUS,
    }
)

_REFUSALS: Mapping[Callable[..., Any], str] = MappingProxyType(
    {
        activations.exponential: "has no greatest slope",
        activations.hard_shrink: "jumps",
        activations.threshold: "jumps",
        activations.glu: "multiplies two halves of its input, without a proved bound",
        activations.sparsemax: "has a derivative longer than 1 at ties, without a proved bound",
    }
)


def activation_bounds(function: Callable[..., Any], shapes: Shapes, layer: Any) -> LayerBounds:
    """The bounds of an activation function on a tensor of the output shape of a layer.

    Args:
        function: One of ``keras.activations``; ``functools.partial(gelu, approximate=True)`` is
            the tanh form of GELU.
        shapes: Of the call.
        layer: Named in the error.

    Raises:
        UnsupportedLayer: If the function has no proved bound.
    """
    if function is activations.softmax:
        return softmax_bounds(shapes)
    if function is activations.log_softmax:
        return _log_softmax_bounds(shapes)
    curve = curves.GELU_TANH if _is_gelu_tanh(function) else _CURVES.get(function)
    if curve is None:
        reason = _REFUSALS.get(function, "has no proved bound")
        raise UnsupportedLayer(
            f"The activation of layer {layer.name!r} {reason}",
            received=getattr(function, "__name__", function),
            fix="Use relu, tanh, gelu, silu or another function of keras.activations with a bound, "
            "or a layer of lipdp.layers such as MaxMin()",
        )
    return Pointwise(curve, shapes.size)


def _is_gelu_tanh(function: Any) -> bool:
    return (
        isinstance(function, functools.partial)
        and (function.func, function.args) == (activations.gelu, ())
        and function.keywords == {"approximate": True}
    )


@dataclass(frozen=True)
class _FiniteInput(Weightless):
    """A layer whose derivative at NaN and infinity is NaN."""

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.gain, g) if x < math.inf else math.inf


def softmax_bounds(shapes: Shapes) -> LayerBounds:
    """Softmax of each of S positions.

    The entries of an output sum to 1, so its norm is at most 1. The rows of the symmetric Jacobian
    ``diag(p) - p p^T`` have absolute sums ``2 p_i (1 - p_i) <= 1/2``, so its norm is at most 1/2.
    """
    root, channels = math.sqrt(shapes.positions), shapes.output[-1]
    return _FiniteInput(
        gain=0.5,
        inference=0.5,
        ceiling=root,
        offset=root / math.sqrt(channels),
        roundings=8 * (channels + 16),
    )


def _log_softmax_bounds(shapes: Shapes) -> LayerBounds:
    """Its Jacobian ``I - 1 p^T`` is a projection along 1, as ``p^T 1 = 1``.

    It and ``1 p^T``, if neither is 0, have the same norm ``sqrt(C) ||p|| <= sqrt(C)`` (D. Szyld,
    The many proofs of an identity on the norm of oblique projections, 2006).
    """
    root, channels = math.sqrt(shapes.positions), shapes.output[-1]
    gain = math.sqrt(channels)
    return _FiniteInput(
        gain=gain,
        inference=gain,
        offset=root * gain * math.log(channels),
        roundings=8 * (channels + 16),
    )


def _activation_layer(layer: Any, shapes: Shapes) -> LayerBounds:
    return activation_bounds(layer.activation, shapes, layer)


def _softmax_layer(layer: Any, shapes: Shapes) -> LayerBounds:
    axes = layer.axis if isinstance(layer.axis, list | tuple) else (layer.axis,)
    if len(axes) != 1 or axes[0] not in (-1, len(shapes.input)):
        raise UnsupportedLayer(
            f"The softmax {layer.name!r} has a proved bound over the last axis only",
            received=layer.axis,
            fix="Use axis=-1",
        )
    return softmax_bounds(shapes)


def _relu(layer: Any, shapes: Shapes) -> LayerBounds:
    if layer.threshold != 0.0:
        raise UnsupportedLayer(
            f"ReLU {layer.name!r} jumps at its threshold and has no Lipschitz constant",
            received=float(layer.threshold),
            fix="Use threshold=0",
        )
    slope = float(as_computed(layer.negative_slope or 0.0))
    if layer.max_value is None:
        return Pointwise(curves.leaky(slope), shapes.size)
    if slope == 0.0:
        return Pointwise(curves.clipped_relu(float(as_computed(layer.max_value))), shapes.size)
    # Two branches that each have a derivative of their own at NaN.
    return Pointwise(Curve(slope=max(1.0, slope)), shapes.size)


def _leaky_relu(layer: Any, shapes: Shapes) -> LayerBounds:
    return Pointwise(curves.leaky(float(as_computed(layer.negative_slope))), shapes.size)


def _elu(layer: Any, shapes: Shapes) -> LayerBounds:
    return Pointwise(curves.exponential_linear(float(as_computed(layer.alpha))), shapes.size)


@dataclass(frozen=True)
class _LearnedSlopes:
    """``max(t, 0) - a max(-t, 0)``, with slopes a that may be shared along axes.

    The gradient of a shared slope sums ``g min(t, 0)`` over its entries, at most ``||t|| ||g||`` of
    these entries by Cauchy-Schwarz; over all slopes, ``||t|| ||g||``.

    Attributes:
        steepest: Bound of ``max |a|`` for all slopes that training can visit.
        present: The same for the slopes of now.
        trained: Whether they are trained.
        shared: Entries that share a slope.
    """

    steepest: float
    present: float
    trained: bool
    shared: int
    linear_backward: bool = True

    def forward_bound(self, x: float) -> float:
        return times(max(1.0, self.steepest), x)

    def backward_bound(self, x: float, g: float) -> float:
        # At NaN both branches may have a derivative.
        return times(max(1.0, self.steepest), g) if x < math.inf else math.inf

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        return [times(x, g)] if self.trained else []

    def lipschitz(self, x: float) -> float:
        return max(1.0, self.present)

    def rounding(self, unit: float) -> float:
        return gamma(self.shared + 8, unit)

    def inference_bound(self, x: float) -> float:
        return times(max(1.0, self.present), x)

    def inference_error(self, x: float, unit: float) -> float:
        return times(gamma(8, unit), self.inference_bound(x))


def _prelu(layer: Any, shapes: Shapes) -> LayerBounds:
    _check_slopes(layer, shapes)
    present = greatest_entry_bound(keras.ops.convert_to_numpy(layer.alpha))
    trained = bool(layer.alpha.trainable)
    return _LearnedSlopes(
        steepest=_steepest(layer.alpha) if trained else present,
        present=present,
        trained=trained,
        shared=shapes.size // math.prod(layer.alpha.shape),
    )


def _check_slopes(layer: Any, shapes: Shapes) -> None:
    """Slopes of a larger shape than the sample would make copies of it."""
    slopes = tuple(layer.alpha.shape)
    if enlarges(slopes, shapes.input):
        raise UnsupportedLayer(
            f"The shared layer {layer.name!r} is called on another shape than it was built for",
            received={"slopes": slopes, "called": shapes.input},
            fix="Use a layer of its own for each shape, or shared_axes",
        )


def _steepest(variable: Any) -> float:
    """Bound of the greatest entry of every weight of a set: at most its spectral norm."""
    projection = projection_of(variable)
    if isinstance(projection, MaxBall):
        return projection.norm_bound
    return math.inf if projection is None else projection.spectral_bound(variable.shape)


RULES: Rules = MappingProxyType(
    {
        keras.layers.Activation: _activation_layer,
        keras.layers.ELU: _elu,
        keras.layers.LeakyReLU: _leaky_relu,
        keras.layers.PReLU: _prelu,
        keras.layers.ReLU: _relu,
        keras.layers.Softmax: _softmax_layer,
    }
)
