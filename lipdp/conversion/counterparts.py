"""The Lipschitz counterpart of each plain Keras layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import keras

from lipdp.layers import (
    BoundedBias,
    BoundedEmbedding,
    CenterNorm,
    SpectralConv1D,
    SpectralConv1DTranspose,
    SpectralConv2D,
    SpectralConv2DTranspose,
    SpectralConv3D,
    SpectralConv3DTranspose,
    SpectralDense,
    SpectralDepthwiseConv2D,
)

_BIAS_RADIUS = 1.0
_KERNEL = "the kernel is kept where its operator norm is at most 1, and starts anew"


@dataclass(frozen=True)
class Counterpart:
    """Layers in place of one, and why.

    Attributes:
        layers: To be called in order.
        why: Reason of the change, or None if the layer is only copied.
    """

    layers: tuple[Any, ...]
    why: str | None = None


@singledispatch
def counterpart(layer: Any) -> Counterpart:
    """What stands for a layer in a converted model; by default a copy of it.

    Register a rule for a layer of your own with ``counterpart.register(MyLayer, rule)``.
    """
    return Counterpart((_copy(layer),))


@counterpart.register
def _dense(layer: keras.layers.Dense) -> Counterpart:
    return _linear(layer, SpectralDense(layer.units, **_names(layer)))


@counterpart.register(keras.layers.Conv1D)
@counterpart.register(keras.layers.Conv2D)
@counterpart.register(keras.layers.Conv3D)
def _convolution(layer: Any) -> Counterpart:
    kind = {1: SpectralConv1D, 2: SpectralConv2D, 3: SpectralConv3D}[layer.rank]
    made = kind(
        layer.filters,
        layer.kernel_size,
        strides=layer.strides,
        padding=layer.padding,
        dilation_rate=layer.dilation_rate,
        groups=layer.groups,
        **_names(layer),
    )
    return _linear(layer, made)


@counterpart.register(keras.layers.Conv1DTranspose)
@counterpart.register(keras.layers.Conv2DTranspose)
@counterpart.register(keras.layers.Conv3DTranspose)
def _transposed(layer: Any) -> Counterpart:
    kinds = (SpectralConv1DTranspose, SpectralConv2DTranspose, SpectralConv3DTranspose)
    made = kinds[layer.rank - 1](
        layer.filters,
        layer.kernel_size,
        strides=layer.strides,
        padding=layer.padding,
        **_names(layer),
    )
    return _linear(layer, made)


@counterpart.register
def _depthwise(layer: keras.layers.DepthwiseConv2D) -> Counterpart:
    return _linear(layer, _depthwise_part(layer, layer.name))


@counterpart.register
def _separable(layer: keras.layers.SeparableConv2D) -> Counterpart:
    pointwise = SpectralConv2D(layer.filters, 1, **_names(layer))
    return _linear(layer, _depthwise_part(layer, f"{layer.name}_depthwise"), pointwise)


@counterpart.register
def _embedding(layer: keras.layers.Embedding) -> Counterpart:
    made = BoundedEmbedding(layer.input_dim, layer.output_dim, radius=1.0, **_names(layer))
    return Counterpart((made,), "rows are kept in the unit ball and start anew; no mask is made")


@counterpart.register
def _batch_normalization(layer: keras.layers.BatchNormalization) -> Counterpart:
    return Counterpart((), "it mixes the records of a batch, so that one enters all gradients")


@counterpart.register
def _layer_normalization(layer: keras.layers.LayerNormalization) -> Counterpart:
    why = "dividing by the standard deviation has no Lipschitz constant; centring has"
    return Counterpart((CenterNorm(**_names(layer)),), why)


@counterpart.register(keras.layers.GroupNormalization)
@counterpart.register(keras.layers.RMSNormalization)
@counterpart.register(keras.layers.UnitNormalization)
def _scale_normalization(layer: Any) -> Counterpart:
    return Counterpart((), "dividing by a norm that may be 0 has no Lipschitz constant")


@counterpart.register
def _add(layer: keras.layers.Add) -> Counterpart:
    why = "an average of branches keeps the constant that a sum multiplies by their number"
    return Counterpart((keras.layers.Average(**_names(layer)),), why)


def head_of(layer: Any) -> Counterpart:
    """The counterpart of the layer that makes the output: losses take logits, so no softmax.

    Args:
        layer: The last layer of a model.
    """
    if isinstance(layer, keras.layers.Softmax) or _ends_in_probabilities(layer):
        found = Counterpart(()) if not layer.weights else counterpart(_without_activation(layer))
        why = "losses take logits; " + (found.why or "probabilities come after training")
        return Counterpart(found.layers, why)
    return counterpart(layer)


def _ends_in_probabilities(layer: Any) -> bool:
    return getattr(layer, "activation", None) in (
        keras.activations.sigmoid,
        keras.activations.softmax,
    )


def _without_activation(layer: Any) -> Any:
    copy = type(layer).from_config({**layer.get_config(), "activation": "linear"})
    copy.build(layer.get_build_config()["input_shape"])
    return copy


def _depthwise_part(layer: Any, name: str) -> SpectralDepthwiseConv2D:
    return SpectralDepthwiseConv2D(
        layer.kernel_size,
        depth_multiplier=layer.depth_multiplier,
        strides=layer.strides,
        padding=layer.padding,
        **{**_names(layer), "name": name},
    )


def _linear(layer: Any, *made: Any) -> Counterpart:
    """The linear part, then a bias in a ball and the activation of the layer, if it has them."""
    layers, why = list(made), _KERNEL
    dtype = _names(layer)["dtype"]
    if layer.use_bias:
        layers.append(BoundedBias(_BIAS_RADIUS, name=f"{layer.name}_bias", dtype=dtype))
        why += f"; the bias is kept in the ball of radius {_BIAS_RADIUS:g}"
    if layer.activation is not keras.activations.linear:
        name = f"{layer.name}_activation"
        layers.append(keras.layers.Activation(layer.activation, name=name, dtype=dtype))
    return Counterpart(tuple(layers), why)


def _names(layer: Any) -> dict[str, Any]:
    dtype = layer.compute_dtype if layer.compute_dtype in ("float32", "float64") else "float32"
    return {"name": layer.name, "dtype": dtype}


def _copy(layer: Any) -> Any:
    if not isinstance(layer, keras.layers.Layer):
        return layer
    config = {k: v for k, v in layer.get_config().items() if not k.endswith("_regularizer")}
    return type(layer).from_config({**config, **_names(layer)})
