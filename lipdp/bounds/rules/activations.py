"""Rules of activation functions: how steep their curves are, and where they end."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
from keras import activations

from lipdp.bounds.rules.base import (
    FiniteInput,
    LayerBounds,
    Rules,
    Shapes,
    enlarges,
    projection_of,
    weight_bound,
)
from lipdp.bounds.rules.structure import as_computed
from lipdp.errors import UnsupportedLayer
from lipdp.numerics import gamma, times
from lipdp.projections import MaxBall, greatest_entry_bound

#: Covers the host's own roundings in a closed form.
_HOST = 1.0 + 2.0**-40

_LOG_2 = math.nextafter(math.log(2.0), 1.0)


@dataclass(frozen=True)
class Curve:
    """A function f of one entry.

    Attributes:
        slope: Supremum of ``|f'|``, rounded up, f' as automatic differentiation returns it, at
            kinks too.
        at_zero: ``|f(0)|``.
        ceiling: Bound of ``|f|``.
        local: Supremum of ``|f'|`` over [-x, x], as a function of x, where it is known.
        lipschitz: Lipschitz constant of f, if smaller than the derivative that is returned.
        finite: Whether the derivative is at most ``slope`` at NaN and infinity too.
        roundings: Relative error of f and f' as computed, in roundings: that of f relative to
            ``max(|f(0)| + slope |t|, floor)``.
        floor: Positive if f as computed has an absolute error near 0.
    """

    slope: float = 1.0
    at_zero: float = 0.0
    ceiling: float = math.inf
    local: Callable[[float], float] | None = None
    lipschitz: float = math.inf
    finite: bool = False
    roundings: int = 32
    floor: float = 0.0

    def slope_up_to(self, x: float) -> float:
        """Supremum of ``|f'|`` over [-x, x]."""
        return self.slope if self.local is None else min(self.slope, _HOST * self.local(x))


@dataclass(frozen=True)
class Pointwise:
    """f applied to each of n entries of a tensor of norm at most x.

    Each entry lies in [-x, x], where f' is at most a. So the Jacobian, which is diagonal, has norm
    at most a, and ``||f(t) - f(0)|| <= a ||t||`` by the mean value theorem. A bound that is raised
    to ``sqrt(n) floor`` covers the absolute error of n computed entries by its relative slack.

    Attributes:
        curve: The function f.
        entries: The number n.
    """

    curve: Curve
    entries: int
    linear_backward: bool = True

    def forward_bound(self, x: float) -> float:
        # A ceiling says nothing about NaN, which only a bounded input excludes.
        if math.isinf(x):
            return math.inf
        root = math.sqrt(self.entries)
        straight = root * self.curve.at_zero + self.curve.slope_up_to(x) * x
        return max(min(straight, root * self.curve.ceiling), root * self.curve.floor)

    def backward_bound(self, x: float, g: float) -> float:
        if math.isinf(x) and not self.curve.finite:
            return math.inf
        return times(self.curve.slope_up_to(x), g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        return []

    def lipschitz(self, x: float) -> float:
        return min(self.curve.slope_up_to(x), self.curve.lipschitz)

    def rounding(self, unit: float) -> float:
        return gamma(self.curve.roundings, unit)

    def inference_bound(self, x: float) -> float:
        return self.forward_bound(x)

    def inference_error(self, x: float, unit: float) -> float:
        # The identity, max(t, 0) and |t| make no rounding of their own.
        exact = self.curve is LINEAR and x < math.inf
        return 0.0 if exact else times(self.rounding(unit), self.forward_bound(x))


def _sigmoid(x: float) -> float:
    """The logistic function of a number that is not negative."""
    return 1.0 / (1.0 + math.exp(-x))


def _gelu_slope(x: float) -> float:
    """``f' = Phi + t phi``, ``f'' = (2 - t^2) phi`` and ``f'(-t) = 1 - f'(t)``.

    So f' grows from 1/2 to its maximum at sqrt 2 and stays above 1/2 thereafter, and at negative t
    ``|f'| <= 1/2``.
    """
    t = min(x, math.sqrt(2.0))
    density = math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
    return 0.5 * (1.0 + math.erf(t / math.sqrt(2.0))) + t * density


def _silu_slope(x: float) -> float:
    """``f'' = s' (2 - t tanh(t / 2))`` with s the sigmoid, and ``f'(-t) = 1 - f'(t)``.

    ``t tanh(t / 2)`` grows with t >= 0 and is below 2 at t = 2.3993, so f' grows up to there; it
    stays above 1/2 thereafter, and at negative t ``|f'| <= 1/2``. Further out the global supremum
    counts.
    """
    if x > 2.3993:
        return math.inf
    s = _sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


def _tanh_shrink_slope(x: float) -> float:
    """``f' = tanh^2`` grows; a floor covers ``t - tanh(t)``, whose error is relative to t."""
    return max(math.tanh(x) ** 2, 0.125)


def _squareplus_slope(x: float) -> float:
    """``f' = (1 + t / sqrt(t^2 + 4)) / 2`` grows."""
    return 0.5 + 0.5 * x / math.hypot(x, 2.0) if x < math.inf else 1.0


def leaky(slope: float) -> Curve:
    """The identity above 0, ``slope t`` below."""
    return Curve(slope=max(1.0, abs(slope)), finite=True, roundings=8)


def exponential_linear(alpha: float) -> Curve:
    """The identity above 0, ``alpha (exp(t) - 1)`` below: steepest at 0.

    TensorFlow subtracts 1 from the rounded exponential.
    """
    return Curve(slope=max(1.0, abs(alpha)), floor=0.125 * max(1.0, abs(alpha)))


def clipped_relu(highest: float) -> Curve:
    """``min(max(t, 0), highest)``."""
    return Curve(ceiling=highest, finite=True, roundings=8)


LINEAR = Curve(finite=True, roundings=8)
RELU = LINEAR
ABS = LINEAR
TANH = Curve(ceiling=1.0)
SIGMOID = Curve(slope=0.25, at_zero=0.5, ceiling=1.0)
# One sixth, rounded up as on PyTorch, which keeps it in float32.
HARD_SIGMOID = Curve(slope=0.1666668, at_zero=0.5, ceiling=1.0, finite=True)
SPARSE_SIGMOID = Curve(slope=0.5, at_zero=0.5, ceiling=1.0, finite=True)
HARD_TANH = Curve(ceiling=1.0, finite=True)
SOFTPLUS = Curve(at_zero=_LOG_2, local=_sigmoid)
LOG_SIGMOID = SOFTPLUS  # f(t) = -softplus(-t)
SOFTSIGN = Curve(ceiling=1.0)
SOFT_SHRINK = Curve(finite=True)
TANH_SHRINK = Curve(local=_tanh_shrink_slope)
SELU = Curve(slope=1.75810, floor=0.25)
GELU = Curve(slope=1.128905, local=_gelu_slope)
GELU_TANH = Curve(slope=1.128994)
SILU = Curve(slope=1.09984, local=_silu_slope)
MISH = Curve(slope=1.08850)
# TensorFlow adds the derivatives of both branches at 0.
CELU = Curve(slope=2.0, lipschitz=1.0)
HARD_SILU = Curve(slope=1.5, local=lambda x: (2.0 * min(x, 3.0) + 3.0) / 6.0)
SQUAREPLUS = Curve(at_zero=1.0, local=_squareplus_slope)
SPARSE_PLUS = Curve(at_zero=0.25, local=lambda x: 0.5 * (1.0 + min(x, 1.0)))


_CURVES: Mapping[Callable[..., Any], Curve] = MappingProxyType(
    {
        activations.linear: LINEAR,
        activations.relu: RELU,
        activations.relu6: clipped_relu(6.0),
        activations.leaky_relu: leaky(0.2),
        activations.tanh: TANH,
        activations.sigmoid: SIGMOID,
        activations.hard_sigmoid: HARD_SIGMOID,
        activations.sparse_sigmoid: SPARSE_SIGMOID,
        activations.hard_tanh: HARD_TANH,
        activations.softplus: SOFTPLUS,
        activations.log_sigmoid: LOG_SIGMOID,
        activations.softsign: SOFTSIGN,
        activations.soft_shrink: SOFT_SHRINK,
        activations.tanh_shrink: TANH_SHRINK,
        activations.elu: exponential_linear(1.0),
        activations.selu: SELU,
        activations.celu: CELU,
        activations.gelu: GELU,
        activations.silu: SILU,
        activations.hard_silu: HARD_SILU,
        activations.mish: MISH,
        activations.squareplus: SQUAREPLUS,
        activations.sparse_plus: SPARSE_PLUS,
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
    curve = GELU_TANH if _is_gelu_tanh(function) else _CURVES.get(function)
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


def softmax_bounds(shapes: Shapes) -> LayerBounds:
    """Softmax of each of S positions.

    The entries of an output sum to 1, so its norm is at most 1. The rows of the symmetric Jacobian
    ``diag(p) - p p^T`` have absolute sums ``2 p_i (1 - p_i) <= 1/2``, so its norm is at most 1/2.
    """
    root, channels = math.sqrt(shapes.positions), shapes.output[-1]
    return FiniteInput(
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
    return FiniteInput(
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
        return Pointwise(leaky(slope), shapes.size)
    if slope == 0.0:
        return Pointwise(clipped_relu(float(as_computed(layer.max_value))), shapes.size)
    # Two branches that each have a derivative of their own at NaN.
    return Pointwise(Curve(slope=max(1.0, slope)), shapes.size)


def _leaky_relu(layer: Any, shapes: Shapes) -> LayerBounds:
    return Pointwise(leaky(float(as_computed(layer.negative_slope))), shapes.size)


def _elu(layer: Any, shapes: Shapes) -> LayerBounds:
    return Pointwise(exponential_linear(float(as_computed(layer.alpha))), shapes.size)


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
    return _LearnedSlopes(
        steepest=_steepest(layer.alpha),
        present=greatest_entry_bound(keras.ops.convert_to_numpy(layer.alpha)),
        trained=bool(layer.alpha.trainable),
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
    """Bound of the greatest entry of every weight of a set, and of the present one."""
    projection = projection_of(variable)
    if isinstance(projection, MaxBall):
        present = keras.ops.convert_to_numpy(variable)
        return projection.reach(present, trained=variable.trainable)
    return weight_bound(variable, greatest_entry_bound)


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
