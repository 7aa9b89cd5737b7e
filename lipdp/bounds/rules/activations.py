"""Rules of activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from lipdp.bounds.rules.base import LayerBounds, Rules, Weightless
from lipdp.bounds.shapes import Shapes
from lipdp.errors import UnsupportedLayer

#: Activations that fix 0 with slopes in [0, 1] -> bound of one output entry.
_CEILINGS: Mapping[Callable[..., Any], float] = MappingProxyType(
    {
        keras.activations.linear: math.inf,
        keras.activations.relu: math.inf,
        keras.activations.tanh: 1.0,
    }
)


def activation_bounds(function: Callable[..., Any], shapes: Shapes, layer: Any) -> Weightless:
    """linear, relu and tanh fix 0 and have slopes in [0, 1]; ``|tanh| <= 1`` bounds the norm."""
    if function not in _CEILINGS:
        raise UnsupportedLayer(
            f"The activation of layer {layer.name!r} has no proved bound",
            received=getattr(function, "__name__", function),
            fix="Use relu, tanh, linear or a layer of lipdp.layers such as MaxMin()",
        )
    # |tanh| <= 1 per entry, as computed: its rounding is inside the elementwise slack.
    return Weightless(ceiling=math.sqrt(shapes.size) * _CEILINGS[function])


def _activation_layer(layer: Any, shapes: Shapes) -> LayerBounds:
    return activation_bounds(layer.activation, shapes, layer)


def _relu(layer: Any, shapes: Shapes) -> LayerBounds:
    if layer.threshold != 0.0:
        raise UnsupportedLayer(
            f"ReLU {layer.name!r} jumps at its threshold and has no Lipschitz constant",
            received=float(layer.threshold),
            fix="Use threshold=0",
        )
    slope = max(1.0, _slope_as_computed(float(layer.negative_slope or 0.0)))
    return Weightless(gain=slope, inference=slope)


def _slope_as_computed(slope: float) -> float:
    """TensorFlow keeps the slope in float32, in a float64 layer too."""
    return max(abs(slope), abs(float(np.float32(slope))))


RULES: Rules = MappingProxyType(
    {keras.layers.Activation: _activation_layer, keras.layers.ReLU: _relu}
)
