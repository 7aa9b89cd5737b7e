"""Rule of the plain dense layer."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import keras

from lipdp.bounds.rules.activations import activation_bounds
from lipdp.bounds.rules.affine import (
    AffineBounds,
    affine_slack,
    present_operator,
    trained_flags,
    weight_bound,
)
from lipdp.bounds.rules.base import LayerBounds, Rules
from lipdp.bounds.shapes import Shapes
from lipdp.errors import UnsupportedLayer
from lipdp.projections import frobenius_norm_bound, spectral_norm_bound


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


RULES: Rules = MappingProxyType({keras.layers.Dense: _dense})
