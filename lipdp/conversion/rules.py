"""How each layer is written with plain Keras parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import keras
from keras import ops

from lipdp.errors import UnsupportedLayer
from lipdp.layers import (
    ActivationClip,
    BoundedBias,
    BoundedInput,
    CotangentClip,
    FrobeniusDense,
    FullSort,
    GroupSort,
    HouseholderActivation,
    MaxMin,
    SpectralDense,
    SphereNormalization,
)

_TRAINING_ONLY = ("_constraint", "_regularizer")


@singledispatch
def plain(layer: Any) -> Callable[..., Any]:
    """A callable that computes the same as the layer in inference, from plain Keras parts only.

    Register a rule for a layer of your own with ``plain.register(MyLayer, rule)``.

    Args:
        layer: A built layer or an operation of a Keras graph.

    Returns:
        A plain Keras layer that holds the present weights, or a function of symbolic tensors made
        of ``keras.ops``.

    Raises:
        UnsupportedLayer: If there is no rule.
    """
    if type(layer).__module__.split(".")[0] != "keras":
        raise UnsupportedLayer(
            f"The layer {layer.name!r} cannot be written with plain Keras layers",
            received=type(layer).__name__,
            fix="Register a rule with lipdp.conversion.plain.register(type(layer), rule)",
        )
    return _clone(layer) if isinstance(layer, keras.layers.Layer) else layer


@plain.register(ActivationClip)
@plain.register(BoundedInput)
@plain.register(FullSort)
@plain.register(GroupSort)
@plain.register(HouseholderActivation)
@plain.register(MaxMin)
@plain.register(SphereNormalization)
def _operations(layer: Any) -> Callable[..., Any]:
    # ``call`` instead of ``__call__``: every ``keras.ops`` inside becomes a node of its own.
    return lambda inputs: layer.call(_cast(inputs, layer))


@plain.register
def _identity(layer: CotangentClip) -> Callable[..., Any]:
    return _unchanged


@plain.register(FrobeniusDense)
@plain.register(SpectralDense)
def _dense(layer: Any) -> keras.layers.Dense:
    return dense_like(layer, bias=None)


@plain.register
def _bias(layer: BoundedBias) -> Callable[..., Any]:
    constant = ops.convert_to_numpy(layer.bias)
    return lambda inputs: ops.add(_cast(inputs, layer), constant)


def dense_like(layer: Any, bias: BoundedBias | None) -> keras.layers.Dense:
    """A built ``Dense`` with the kernel of a bias-free dense layer, and the bias if one is given.

    Args:
        layer: A built ``SpectralDense`` or ``FrobeniusDense``.
        bias: A built bias layer, or None.
    """
    name = layer.name if bias is None else f"{layer.name}_{bias.name}"
    dense = keras.layers.Dense(
        layer.units, use_bias=bias is not None, name=name, dtype=layer.dtype_policy
    )
    dense.build((None, layer.kernel.shape[0]))
    weights = [layer.kernel] if bias is None else [layer.kernel, bias.bias]
    dense.set_weights([ops.convert_to_numpy(w) for w in weights])
    return dense


def _unchanged(inputs: Any) -> Any:
    return inputs


def _cast(inputs: Any, layer: keras.layers.Layer) -> Any:
    """What ``__call__`` does to floats before ``call``."""
    if inputs.dtype == layer.compute_dtype:
        return inputs
    return ops.cast(inputs, layer.compute_dtype)


def _clone(layer: keras.layers.Layer) -> keras.layers.Layer:
    config = {k: v for k, v in layer.get_config().items() if not k.endswith(_TRAINING_ONLY)}
    copy = type(layer).from_config(config)
    if layer.weights:
        copy.build_from_config(layer.get_build_config())
        copy.set_weights(layer.get_weights())
    return copy
