"""How each layer is written with plain Keras parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp import layers as ls
from lipdp.conversion._dispatch import LayerRules, is_keras
from lipdp.errors import UnsupportedLayer
from lipdp.layers.clipping import AdaptiveCotangentClip

_TRAINING_ONLY = ("_constraint", "_regularizer")


@LayerRules
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
    if not is_keras(layer):
        raise UnsupportedLayer(
            f"The layer {layer.name!r} cannot be written with plain Keras layers",
            received=type(layer).__name__,
            fix="Register a rule with lipdp.conversion.plain.register(type(layer), rule)",
        )
    return _clone(layer) if isinstance(layer, keras.layers.Layer) else layer


@plain.register(ls.AbsoluteValue)
@plain.register(ls.ActivationClip)
@plain.register(ls.BoundedInput)
@plain.register(ls.CenterNorm)
@plain.register(ls.Centering)
@plain.register(ls.DepthToSpace)
@plain.register(ls.FrozenFeatures)
@plain.register(ls.FullSort)
@plain.register(ls.GlobalL2NormPooling)
@plain.register(ls.GroupSort)
@plain.register(ls.HouseholderActivation)
@plain.register(ls.L2NormPooling1D)
@plain.register(ls.L2NormPooling2D)
@plain.register(ls.L2NormPooling3D)
@plain.register(ls.MaxMin)
@plain.register(ls.ScaledAveragePooling1D)
@plain.register(ls.ScaledAveragePooling2D)
@plain.register(ls.ScaledAveragePooling3D)
@plain.register(ls.ScaledGlobalAveragePooling)
@plain.register(ls.Scattering2D)
@plain.register(ls.SpaceToDepth)
@plain.register(ls.SphereNormalization)
def _operations(layer: Any) -> Callable[..., Any]:
    # ``call`` instead of ``__call__``: every ``keras.ops`` inside becomes a node of its own.
    return lambda inputs: layer.call(_cast(inputs, layer))


@plain.register(AdaptiveCotangentClip)
@plain.register(ls.CotangentClip)
def _identity(layer: Any) -> Callable[..., Any]:
    return _unchanged


@plain.register(ls.FrobeniusDense)
@plain.register(ls.SpectralDense)
def _dense(layer: Any) -> keras.layers.Dense:
    return dense_like(layer, bias=None)


@plain.register
def _bias(layer: ls.BoundedBias) -> Callable[..., Any]:
    constant = ops.convert_to_numpy(layer.bias)
    return lambda inputs: ops.add(_cast(inputs, layer), constant)


@plain.register
def _scale(layer: ls.BoundedScale) -> Callable[..., Any]:
    constant = ops.convert_to_numpy(layer.scale)
    return lambda inputs: ops.multiply(_cast(inputs, layer), constant)


@plain.register
def _embedding(layer: ls.BoundedEmbedding) -> Callable[..., Any]:
    """One row more, of zeros, for ids out of range."""
    rows, units = layer.table.shape
    table = keras.layers.Embedding(rows + 1, units, name=layer.name, dtype=layer.dtype_policy)
    table.build(None)
    known_rows = ops.convert_to_numpy(layer.table)
    table.set_weights([np.concatenate([known_rows, np.zeros((1, units))])])

    def look_up(inputs: Any) -> Any:
        ids, known = layer.known_ids(inputs)
        return table(ops.where(known, ids, rows))

    return look_up


def dense_like(layer: Any, bias: ls.BoundedBias | None) -> keras.layers.Dense:
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
