"""The same architecture without constraints, for training that clips gradients instead."""

from __future__ import annotations

from typing import Any

import keras

from lipdp.conversion import plain
from lipdp.conversion.graph import call_again
from lipdp.errors import UnsupportedLayer
from lipdp.layers import (
    AbsoluteValue,
    AdaptiveCotangentClip,
    BoundedBias,
    CotangentClip,
    FullSort,
    GroupSort,
    HouseholderActivation,
    MaxMin,
)
from lipdp.training import Sequential

_ACTIVATIONS = (AbsoluteValue, FullSort, GroupSort, HouseholderActivation, MaxMin)
_BACKWARD = (AdaptiveCotangentClip, CotangentClip)


def unconstrained(model: keras.Sequential, *, relu: bool = False) -> Sequential:
    """A model of the same layers and present weights, none of which has a constraint.

    Dense layers and convolutions become Keras' own, with the bias that follows them. Layers without
    weights stay, but for cotangent clips, which act on gradients alone: the clipping of whole
    gradients takes their place.

    Args:
        model: A built model; blocks in it may be any graphs.
        relu: Whether activations become ReLU, which is what networks without constraints mostly
            have; otherwise they stay.

    Raises:
        UnsupportedLayer: If a layer with weights has no counterpart; it is named.
    """
    made = call_again(model, _Calls(relu))
    # A chain of layers is called one after the other, so that they stand in order.
    layers = [layer for layer in made.layers if not isinstance(layer, keras.layers.InputLayer)]
    start = keras.Input(made.inputs[0].shape[1:], dtype=made.inputs[0].dtype)
    return Sequential([start, *layers], name=model.name)


class _Calls:
    """Calls each layer's counterpart; a layer used twice has one counterpart."""

    def __init__(self, relu: bool) -> None:
        self._relu = relu
        self._made: dict[tuple[int, ...], Any] = {}
        self._affine: dict[int, tuple[Any, Any]] = {}

    def __call__(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(layer, BoundedBias):
            return self._with_bias(layer, args[0])
        if isinstance(layer, _BACKWARD):
            return args[0]
        if (id(layer),) not in self._made:
            self._made[id(layer),] = self._counterpart(layer)
        made = self._made[id(layer),]
        outputs = made(*args, **kwargs)
        if getattr(made, "use_bias", None) is False:
            self._affine[id(outputs)] = (made, args[0])
        return outputs

    def _with_bias(self, bias: BoundedBias, product: Any) -> Any:
        """Makes the product again with a bias; Keras drops the first one if nothing reads it."""
        if id(product) not in self._affine:
            raise _unknown(bias)
        layer, inputs = self._affine[id(product)]
        key = (id(layer), id(bias))
        if key not in self._made:
            self._made[key] = _biased(layer, bias)
        return self._made[key](inputs)

    def _counterpart(self, layer: Any) -> Any:
        if isinstance(layer, keras.Model):
            return _block(call_again(layer, _Calls(self._relu)))
        if not isinstance(layer, keras.layers.Layer):
            return layer
        if self._relu and isinstance(layer, _ACTIVATIONS):
            return keras.layers.ReLU(name=layer.name, dtype=layer.dtype_policy)
        return _free(layer) if layer.trainable_variables else _copy(layer)


def _block(model: keras.Model) -> keras.Model:
    """With tensors in place of lists of one, as blocks are called."""
    ends = (
        tensors[0] if len(tensors) == 1 else tensors for tensors in (model.inputs, model.outputs)
    )
    return keras.Model(*ends, name=model.name)


def _free(layer: Any) -> Any:
    """Keras' own layer with the present weights.

    Raises:
        UnsupportedLayer: If there is none.
    """
    try:
        made = plain(layer)
    except UnsupportedLayer:
        raise _unknown(layer) from None
    # Some counterparts are functions, with the weights as constants.
    if not isinstance(made, keras.layers.Layer):
        raise _unknown(layer)
    return made


def _copy(layer: Any) -> Any:
    copy = type(layer).from_config(layer.get_config())
    if layer.weights:
        copy.build_from_config(layer.get_build_config())
        copy.set_weights(layer.get_weights())
    return copy


def _biased(layer: Any, bias: BoundedBias) -> Any:
    config = {**layer.get_config(), "use_bias": True, "name": f"{layer.name}_{bias.name}"}
    made = type(layer).from_config(config)
    made.build_from_config(layer.get_build_config())
    made.set_weights([*layer.get_weights(), keras.ops.convert_to_numpy(bias.bias)])
    return made


def _unknown(layer: Any) -> UnsupportedLayer:
    return UnsupportedLayer(
        f"The layer {layer.name!r} has no counterpart without constraints, which DP-SGD needs",
        received=type(layer).__name__,
        fix="Use another model, or training.method=clipless",
    )
