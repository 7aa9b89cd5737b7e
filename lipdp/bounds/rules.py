"""Proved bounds of plain Keras layers, found by exact type; anything else is refused."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import keras
import numpy as np

from lipdp.errors import UnsupportedLayer
from lipdp.layers.base import LipschitzLayer
from lipdp.projections import Projection, frobenius_norm_bound, spectral_norm_bound
from lipdp.rounding import gamma, product_slack, times


class LayerBounds(Protocol):
    """The contract of ``lipdp.layers.base.LipschitzLayer``, for any layer."""

    def forward_bound(self, x: float) -> float: ...

    def backward_bound(self, x: float, g: float) -> float: ...

    def parameter_bounds(self, x: float, g: float) -> list[float]: ...

    def lipschitz(self, x: float) -> float: ...

    def rounding(self, unit: float) -> float: ...


@dataclass(frozen=True)
class Elementwise:
    """A weightless layer: gain times the norm, at most ``ceiling``; ``inference`` is its J there.

    Attributes:
        gain: Bound of the Jacobian norm in training, and of ``||f(t)|| / ||t||``.
        inference: Lipschitz constant in inference mode.
        ceiling: Bound of ``||f(t)||`` for every t.
    """

    gain: float = 1.0
    inference: float = 1.0
    ceiling: float = math.inf

    def forward_bound(self, x: float) -> float:
        # The ceiling says nothing about NaN, which only a bounded input excludes.
        return math.inf if math.isinf(x) else min(times(self.gain, x), self.ceiling)

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.gain, g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        return []

    def lipschitz(self, x: float) -> float:
        return self.inference

    def rounding(self, unit: float) -> float:
        return gamma(8, unit)


@dataclass(frozen=True)
class AffineBounds:
    """``activation(x W + b)`` on the last axis at S positions.

    ``||x W|| <= ||W||_2 ||x||`` (each position is multiplied by W); the gradient of W is the sum
    over positions of outer products, ``X^T G`` with Frobenius norm at most ``||X|| ||G||``; a bias
    repeated at S positions has norm ``sqrt(S) ||b||`` and, by Cauchy-Schwarz, gradient at most
    ``sqrt(S) ||G||``.
    """

    kernel: float
    present_kernel: float
    bias: float
    positions: int
    trainable: bool
    has_bias: bool
    activation: Elementwise
    fan_in: int
    side: int

    def forward_bound(self, x: float) -> float:
        affine = times(self.kernel, x) + math.sqrt(self.positions) * self.bias
        return self.activation.forward_bound(affine)

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.kernel, self.activation.backward_bound(x, g))

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        if not self.trainable:
            return []
        inner = self.activation.backward_bound(x, g)
        bias = [times(math.sqrt(self.positions), inner)] if self.has_bias else []
        return [times(x, inner), *bias]

    def lipschitz(self, x: float) -> float:
        return times(self.present_kernel, self.activation.inference)

    def rounding(self, unit: float) -> float:
        # One more rounding for the bias; the sum over positions of the parameter gradients.
        inner = max(self.fan_in, self.positions) + 8
        return product_slack(inner, self.side, unit)


#: Activations that fix 0 with slopes in [0, 1] -> bound of one output entry.
_CEILINGS: Mapping[Callable[..., Any], float] = MappingProxyType(
    {
        keras.activations.linear: math.inf,
        keras.activations.relu: math.inf,
        keras.activations.tanh: 1.0,
    }
)


def _activation(function: Callable[..., Any], size: int, layer: Any) -> Elementwise:
    """linear, relu and tanh fix 0 and have slopes in [0, 1]; ``|tanh| <= 1`` bounds the norm."""
    if function not in _CEILINGS:
        raise UnsupportedLayer(
            f"The activation of layer {layer.name!r} has no proved bound",
            received=getattr(function, "__name__", function),
            fix="Use relu, tanh, linear or a layer of lipdp.layers such as MaxMin()",
        )
    # |tanh| <= 1 per entry, as computed: its rounding is inside the elementwise slack.
    return Elementwise(ceiling=math.sqrt(size) * _CEILINGS[function])


def _activation_layer(layer: Any, size: int) -> LayerBounds:
    return _activation(layer.activation, size, layer)


def _relu(layer: Any, size: int) -> LayerBounds:
    if layer.threshold != 0.0:
        raise UnsupportedLayer(
            f"ReLU {layer.name!r} jumps at its threshold and has no Lipschitz constant",
            received=float(layer.threshold),
            fix="Use threshold=0",
        )
    slope = max(1.0, _slope_as_computed(float(layer.negative_slope or 0.0)))
    return Elementwise(gain=slope, inference=slope)


def _slope_as_computed(slope: float) -> float:
    """TensorFlow keeps the slope in float32, in a float64 layer too."""
    return max(abs(slope), abs(float(np.float32(slope))))


def _dropout(layer: Any, size: int) -> LayerBounds:
    """Kept entries are divided by 1 - p; in inference it is the identity.

    Rows lie in uniformly random slots of a batch of fixed size, so the masks of the slots are the
    same random variables whether or not one row is there.
    """
    return Elementwise(gain=1.0 / (1.0 - float(layer.rate)), inference=1.0)


def _same(layer: Any, size: int) -> LayerBounds:
    return Elementwise()


def _weight_norm(
    layer: Any, variable: Any, constraint: Any, bound_of: Callable[[Any], float]
) -> float:
    if not layer.trainable:
        return bound_of(keras.ops.convert_to_numpy(variable))
    return constraint.norm_bound if isinstance(constraint, Projection) else math.inf


def _dense(layer: Any, size: int) -> LayerBounds:
    if getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None):
        raise UnsupportedLayer(
            f"Dense {layer.name!r} with LoRA or quantization has no proved bound"
        )
    fan_in, units = layer.kernel.shape
    bias = layer.bias if layer.use_bias else None
    return AffineBounds(
        kernel=_weight_norm(layer, layer.kernel, layer.kernel_constraint, spectral_norm_bound),
        present_kernel=spectral_norm_bound(keras.ops.convert_to_numpy(layer.kernel)),
        bias=0.0
        if bias is None
        else _weight_norm(layer, bias, layer.bias_constraint, frobenius_norm_bound),
        positions=max(1, size // units),
        trainable=bool(layer.trainable),
        has_bias=bias is not None,
        activation=_activation(layer.activation, size, layer),
        fan_in=fan_in,
        side=min(fan_in, units),
    )


#: Exact type -> rule of (layer, number of output entries).
RULES: Mapping[type, Callable[[Any, int], LayerBounds]] = MappingProxyType(
    {
        keras.layers.Activation: _activation_layer,
        keras.layers.Dense: _dense,
        keras.layers.Dropout: _dropout,
        keras.layers.Flatten: _same,
        keras.layers.Identity: _same,
        keras.layers.Permute: _same,
        keras.layers.ReLU: _relu,
        keras.layers.Reshape: _same,
    }
)

_CURES: Mapping[str, str] = MappingProxyType(
    {
        "BatchNormalization": "It mixes the samples of a batch: remove it, or normalise each "
        "sample with lipdp.layers.SphereNormalization",
        "LayerNormalization": "Use lipdp.layers.SphereNormalization",
        "Conv2D": "Flatten and use lipdp.layers.SpectralDense",
        "Softmax": "Leave it out: the losses of lipdp.losses take logits",
    }
)


def bounds_of(layer: Any, output_size: int) -> LayerBounds:
    """The proved bounds of a layer.

    Args:
        layer: A layer or operation of a Keras graph.
        output_size: Number of entries of one sample of its output.

    Raises:
        UnsupportedLayer: If none are known, if the layer inherits its bounds from a concrete layer
            whose code it may have changed, or if it adds a loss that depends on data.
    """
    if getattr(layer, "activity_regularizer", None) is not None:
        raise UnsupportedLayer(
            f"The activity regulariser of layer {layer.name!r} adds a loss without a bound",
            received=layer.activity_regularizer,
            fix="Remove it",
        )
    if isinstance(layer, LipschitzLayer):
        _check_final(layer)
        return layer
    if type(layer) in RULES:
        return RULES[type(layer)](layer, output_size)
    name = type(layer).__name__
    raise UnsupportedLayer(
        f"The layer {layer.name!r} ({name}) has no proved bound",
        received=name,
        fix=_CURES.get(
            name, "Use a layer of lipdp.layers, or subclass lipdp.layers.LipschitzLayer"
        ),
    )


def _check_final(layer: LipschitzLayer) -> None:
    """A subclass of a concrete layer would inherit bounds that its own code may break."""
    own = LipschitzLayer.__module__.rpartition(".")[0]
    if type(layer).__module__.startswith(f"{own}."):
        return
    for base in type(layer).__mro__[1:]:
        extendable = base.__module__ == LipschitzLayer.__module__
        if issubclass(base, LipschitzLayer) and not (extendable or inspect.isabstract(base)):
            raise UnsupportedLayer(
                f"The layer {layer.name!r} inherits the bounds of {base.__name__}, which is final",
                received=type(layer).__name__,
                fix="Subclass lipdp.layers.LipschitzLayer and state the bounds",
            )
