"""The Lipschitz counterpart of each plain Keras layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from lipdp.conversion.graph import LayerRules, is_keras
from lipdp.conversion.options import (
    check_last_axis,
    check_plain,
    check_undilated,
    check_unpadded,
    names,
    reason,
    thawed,
)
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
_ROWS = "rows are kept in the unit ball and start anew, and what is no id reads zeros"
_CENTRED = "dividing by the standard deviation has no Lipschitz constant; centring has"


@dataclass(frozen=True)
class Counterpart:
    """Layers in place of one, and why.

    Attributes:
        layers: To be called in order.
        why: Reason of the change, or None if the layer is copied with all that it does.
    """

    layers: tuple[Any, ...]
    why: str | None = None


@LayerRules
def counterpart(layer: Any) -> Counterpart:
    """What stands for a layer in a converted model; by default a copy of it.

    Register a rule for a layer of your own with ``counterpart.register(MyLayer, rule)``. A subclass
    of a Keras layer may compute anything: it has the rules of its own types only.

    Raises:
        UnsupportedLayer: If the layer has an option that its counterpart lacks.
    """
    return Counterpart((_copy(layer),), reason(layer))


@counterpart.register
def _dense(layer: keras.layers.Dense) -> Counterpart:
    return _linear(layer, SpectralDense(layer.units, **names(layer)))


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
        **names(layer),
    )
    return _linear(layer, made)


@counterpart.register(keras.layers.Conv1DTranspose)
@counterpart.register(keras.layers.Conv2DTranspose)
@counterpart.register(keras.layers.Conv3DTranspose)
def _transposed(layer: Any) -> Counterpart:
    check_undilated(layer)
    check_unpadded(layer)
    kinds = (SpectralConv1DTranspose, SpectralConv2DTranspose, SpectralConv3DTranspose)
    made = kinds[layer.rank - 1](
        layer.filters,
        layer.kernel_size,
        strides=layer.strides,
        padding=layer.padding,
        **names(layer),
    )
    return _linear(layer, made)


@counterpart.register
def _depthwise(layer: keras.layers.DepthwiseConv2D) -> Counterpart:
    return _linear(layer, _depthwise_part(layer, layer.name))


@counterpart.register
def _separable(layer: keras.layers.SeparableConv2D) -> Counterpart:
    pointwise = SpectralConv2D(layer.filters, 1, **names(layer))
    return _linear(layer, _depthwise_part(layer, f"{layer.name}_depthwise"), pointwise)


@counterpart.register
def _embedding(layer: keras.layers.Embedding) -> Counterpart:
    check_plain(layer)
    made = BoundedEmbedding(layer.input_dim, layer.output_dim, radius=1.0, **names(layer))
    mask = ("no mask is made",) if layer.mask_zero else ()
    return Counterpart((made,), reason(layer, _ROWS, *mask, *thawed(layer)))


@counterpart.register
def _batch_normalization(layer: keras.layers.BatchNormalization) -> Counterpart:
    return Counterpart((), "it mixes the records of a batch, so that one enters all gradients")


@counterpart.register
def _layer_normalization(layer: keras.layers.LayerNormalization) -> Counterpart:
    if layer.rms_scaling:
        return _scale_normalization(layer)
    check_last_axis(layer)
    learned = ("its learned scale and shift are left out",) if layer.scale or layer.center else ()
    return Counterpart((CenterNorm(**names(layer)),), reason(layer, _CENTRED, *learned))


@counterpart.register(keras.layers.GroupNormalization)
@counterpart.register(keras.layers.RMSNormalization)
@counterpart.register(keras.layers.UnitNormalization)
def _scale_normalization(layer: Any) -> Counterpart:
    return Counterpart((), "dividing by a norm that may be 0 has no Lipschitz constant")


@counterpart.register
def _add(layer: keras.layers.Add) -> Counterpart:
    why = "an average of branches keeps the constant that a sum multiplies by their number"
    return Counterpart((keras.layers.Average(**names(layer)),), reason(layer, why))


def head_of(layer: Any) -> Counterpart:
    """The counterpart of the layer that makes the output: losses take logits, so no softmax.

    What a layer from elsewhere makes of its activation is not known, so it is left as it is.

    Args:
        layer: The last layer of a model.

    Raises:
        UnsupportedLayer: If the layer has an option that its counterpart lacks.
    """
    if is_keras(layer) and _makes_probabilities(layer):
        found = Counterpart(()) if not layer.weights else counterpart(_without_activation(layer))
        why = "losses take logits; " + (found.why or "probabilities come after training")
        return Counterpart(found.layers, why)
    return counterpart(layer)


def _makes_probabilities(layer: Any) -> bool:
    last = getattr(layer, "activation", None)
    known = (keras.activations.sigmoid, keras.activations.softmax)
    return isinstance(layer, keras.layers.Softmax) or last in known


def _without_activation(layer: Any) -> Any:
    copy = type(layer).from_config({**layer.get_config(), "activation": "linear"})
    copy.build(layer.get_build_config()["input_shape"])
    return copy


def _depthwise_part(layer: Any, name: str) -> SpectralDepthwiseConv2D:
    check_undilated(layer)
    return SpectralDepthwiseConv2D(
        layer.kernel_size,
        depth_multiplier=layer.depth_multiplier,
        strides=layer.strides,
        padding=layer.padding,
        **{**names(layer), "name": name},
    )


def _linear(layer: Any, *made: Any) -> Counterpart:
    """The linear part, then a bias in a ball and the activation of the layer, if it has them."""
    check_plain(layer)
    layers, why = list(made), [_KERNEL]
    dtype = names(layer)["dtype"]
    if layer.use_bias:
        layers.append(BoundedBias(_BIAS_RADIUS, name=f"{layer.name}_bias", dtype=dtype))
        why.append(f"the bias is kept in the ball of radius {_BIAS_RADIUS:g}")
    if layer.activation is not keras.activations.linear:
        name = f"{layer.name}_activation"
        layers.append(keras.layers.Activation(layer.activation, name=name, dtype=dtype))
    return Counterpart(tuple(layers), reason(layer, *why, *thawed(layer)))


def _copy(layer: Any) -> Any:
    if not isinstance(layer, keras.layers.Layer):
        return layer
    config = {k: v for k, v in layer.get_config().items() if not k.endswith("_regularizer")}
    return type(layer).from_config({**config, **names(layer)})
