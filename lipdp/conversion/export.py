"""A model as a plain Keras model that needs this package no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp import layers as ls
from lipdp.conversion.graph import LayerRules, call_again, is_keras
from lipdp.errors import UnsupportedLayer
from lipdp.layers import BoundedBias, FrobeniusDense, SpectralDense
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


@plain.register(ls.SpectralConv1D)
@plain.register(ls.SpectralConv2D)
@plain.register(ls.SpectralConv3D)
def _convolution(layer: Any) -> Callable[..., Any]:
    kinds = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
    circular = layer.padding == "circular"
    made = kinds[layer.rank - 1](
        layer.filters,
        layer.kernel_size,
        dilation_rate=layer.dilation_rate,
        groups=layer.groups,
        **{**_common(layer), "padding": "valid" if circular else layer.padding},
    )
    _fill(made, layer, layer.kernel.shape[-2] * layer.groups)
    return (lambda inputs: made(layer.padded(inputs)[0])) if circular else made


@plain.register(ls.SpectralConv1DTranspose)
@plain.register(ls.SpectralConv2DTranspose)
@plain.register(ls.SpectralConv3DTranspose)
def _transposed(layer: Any) -> Callable[..., Any]:
    names = ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
    kind = getattr(keras.layers, names[layer.rank - 1])
    made = kind(layer.filters, layer.kernel_size, **_common(layer))
    return _fill(made, layer, layer.kernel.shape[-1])


@plain.register
def _depthwise(layer: ls.SpectralDepthwiseConv2D) -> Callable[..., Any]:
    made = keras.layers.DepthwiseConv2D(
        layer.kernel_size, depth_multiplier=layer.depth_multiplier, **_common(layer)
    )
    return _fill(made, layer, layer.kernel.shape[-2])


def _common(layer: Any) -> dict[str, Any]:
    return {
        "strides": layer.strides,
        "padding": layer.padding,
        "data_format": "channels_last",
        "use_bias": False,
        "name": layer.name,
        "dtype": layer.dtype_policy,
    }


def _fill(made: Any, layer: Any, channels: int) -> Any:
    made.build((None, *(None,) * layer.rank, channels))
    made.set_weights([ops.convert_to_numpy(layer.scaled_kernel())])
    return made


def export(model: keras.Model) -> keras.Model:
    """The inference-mode function of a model, built of plain Keras layers and ``keras.ops``.

    Dense layers become ``keras.layers.Dense``, with the bias that follows them; cotangent clips
    vanish; all other layers are written out as operations. The copy shares nothing with the model,
    is not compiled, holds no privacy ledger, and training it has no guarantee.

    Args:
        model: A built Sequential or Functional model; nested models are exported too.

    Returns:
        A Functional model of the same name with equal predictions (to rounding). A ``.keras`` file
        of it loads where this package is not installed.

    Raises:
        InvalidState: If the model is not built.
        UnsupportedLayer: If a layer has no rule, or the model is subclassed.
    """
    exported = call_again(model, _Calls())
    _check_plain(exported)
    return exported


class _Calls:
    """Calls each layer's plain counterpart; a layer used twice has one counterpart."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], Callable[..., Any]] = {}
        self._dense: dict[int, tuple[Any, Any]] = {}

    def __call__(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        if type(layer) is BoundedBias and id(args[0]) in self._dense:
            return self._with_bias(layer, args[0])
        outputs = self._counterpart(layer)(*args, **kwargs)
        if type(layer) in (SpectralDense, FrobeniusDense):
            self._dense[id(outputs)] = (layer, args[0])
        return outputs

    def _with_bias(self, bias: BoundedBias, product: Any) -> Any:
        """Makes the product again with a bias; Keras drops the first one if nothing reads it."""
        dense, inputs = self._dense[id(product)]
        key = (id(dense), id(bias))
        if key not in self._made:
            self._made[key] = dense_like(dense, bias)
        return self._made[key](inputs)

    def _counterpart(self, layer: Any) -> Callable[..., Any]:
        key = (id(layer),)
        if key not in self._made:
            nested = isinstance(layer, keras.Model)
            self._made[key] = call_again(layer, _Calls()) if nested else plain(layer)
        return self._made[key]


def _check_plain(model: keras.Model) -> None:
    """A last look at what would be written: a name from here needs this package to load."""
    text = model.to_json()
    if '"lipdp>' in text or '"lipdp.' in text:
        raise UnsupportedLayer(
            f"The model {model.name!r} has an option that plain Keras does not know",
            fix="Replace the activation or other option that comes from lipdp",
        )
