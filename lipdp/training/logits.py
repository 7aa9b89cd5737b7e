"""Whether a model's output can be the logits that a loss takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras
from keras import activations

from lipdp.bounds.graph import Call, graph_of
from lipdp.errors import UnsafeSetting
from lipdp.layers import (
    AbsoluteValue,
    ActivationClip,
    AdaptiveCotangentClip,
    CotangentClip,
    DepthToSpace,
    FullSort,
    GlobalL2NormPooling,
    GroupSort,
    L2NormPooling1D,
    L2NormPooling2D,
    L2NormPooling3D,
    MaxMin,
    ScaledAveragePooling1D,
    ScaledAveragePooling2D,
    ScaledAveragePooling3D,
    ScaledGlobalAveragePooling,
    SpaceToDepth,
    SphereNormalization,
)
from lipdp.losses import CosineLoss
from lipdp.losses.base import LipschitzLoss

#: Of an activation function: 1 if no value is negative, -1 if none is positive, 0 if a value has
#: the sign of its argument. What is missing may have any sign.
SIGNS: Mapping[Callable[..., Any], int] = MappingProxyType(
    {
        activations.celu: 0,
        activations.elu: 0,
        activations.exponential: 1,
        activations.gelu: 0,
        activations.hard_shrink: 0,
        activations.hard_sigmoid: 1,
        activations.hard_silu: 0,
        activations.hard_tanh: 0,
        activations.leaky_relu: 0,
        activations.linear: 0,
        activations.log_sigmoid: -1,
        activations.log_softmax: -1,
        activations.mish: 0,
        activations.relu: 1,
        activations.relu6: 1,
        activations.selu: 0,
        activations.sigmoid: 1,
        activations.silu: 0,
        activations.soft_shrink: 0,
        activations.softmax: 1,
        activations.softplus: 1,
        activations.softsign: 0,
        activations.sparse_plus: 1,
        activations.sparse_sigmoid: 1,
        activations.sparsemax: 1,
        activations.squareplus: 1,
        activations.tanh: 0,
        activations.tanh_shrink: 0,
    }
)
_NORMS = (
    AbsoluteValue,
    GlobalL2NormPooling,
    L2NormPooling1D,
    L2NormPooling2D,
    L2NormPooling3D,
)
_SORTS = (FullSort, GroupSort, MaxMin)
#: What moves, copies, drops or averages entries, takes the largest of them, or clips what is given
#: back: no sign becomes another.
_KEEP_SIGNS = (
    *_SORTS,
    AdaptiveCotangentClip,
    ActivationClip,
    CotangentClip,
    DepthToSpace,
    ScaledAveragePooling1D,
    ScaledAveragePooling2D,
    ScaledAveragePooling3D,
    ScaledGlobalAveragePooling,
    SpaceToDepth,
    SphereNormalization,
    keras.layers.AveragePooling1D,
    keras.layers.AveragePooling2D,
    keras.layers.AveragePooling3D,
    keras.layers.Cropping1D,
    keras.layers.Cropping2D,
    keras.layers.Cropping3D,
    keras.layers.Dropout,
    keras.layers.Flatten,
    keras.layers.GlobalAveragePooling1D,
    keras.layers.GlobalAveragePooling2D,
    keras.layers.GlobalAveragePooling3D,
    keras.layers.GlobalMaxPooling1D,
    keras.layers.GlobalMaxPooling2D,
    keras.layers.GlobalMaxPooling3D,
    keras.layers.Identity,
    keras.layers.MaxPooling1D,
    keras.layers.MaxPooling2D,
    keras.layers.MaxPooling3D,
    keras.layers.Permute,
    keras.layers.RepeatVector,
    keras.layers.Reshape,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
    keras.layers.SpatialDropout3D,
    keras.layers.UpSampling1D,
    keras.layers.UpSampling2D,
    keras.layers.UpSampling3D,
    keras.layers.ZeroPadding1D,
    keras.layers.ZeroPadding2D,
    keras.layers.ZeroPadding3D,
    keras.layers.Add,
    keras.layers.Average,
    keras.layers.Concatenate,
    keras.layers.Maximum,
    keras.layers.Minimum,
)
#: Behind these a sorted tensor is sorted still.
_KEEP_ORDER = (
    AdaptiveCotangentClip,
    CotangentClip,
    keras.layers.Dropout,
    keras.layers.Flatten,
    keras.layers.Identity,
    keras.layers.Reshape,
)


def check_logits(model: keras.Model, loss: LipschitzLoss) -> None:
    """Refuses a model whose output cannot be the logits that a loss of classes takes.

    These losses read the sign of a logit, or which logit is the largest. Behind a sigmoid, softmax,
    ReLU or softplus no logit is negative, so that one class is never said, and the probabilities
    that the loss makes of the logits are those of probabilities. Sorted logits have the largest
    always at the same place. An output of both signs is taken, be it bounded (tanh) or not;
    regression takes any output, the cosine loss any direction, and a loss of the user's own what
    it likes.

    Args:
        model: A built model with a graph and one output.
        loss: Its loss.

    Raises:
        UnsafeSetting: Naming the layer.
        UnsupportedLayer: If the model has no graph, or several outputs.
    """
    inner: Any = loss
    while hasattr(inner, "loss"):
        inner = inner.loss
    own = not type(inner).__module__.startswith("lipdp.")
    if own or loss.task == "regression" or isinstance(inner, CosineLoss):
        return
    graph = graph_of(model)
    made_by = {call.output: call for call in graph.calls}
    sides: dict[int, tuple[int, Any]] = {key: (0, None) for key in graph.inputs}
    for call in graph.calls:
        sides[call.output] = _side(call, [sides[key] for key in call.inputs])
    side, layer = sides[graph.output]
    if side != 0:
        _refuse(layer, f"no logit is {'negative' if side > 0 else 'positive'}")
    last = made_by[graph.output]
    while isinstance(last.layer, _KEEP_ORDER) and last.inputs[0] in made_by:
        last = made_by[last.inputs[0]]
    if isinstance(last.layer, _SORTS):
        _refuse(last.layer, "some logits are never the largest")


def _refuse(layer: Any, why: str) -> None:
    function = getattr(layer, "activation", None)
    name = getattr(function, "__name__", type(layer).__name__)
    raise UnsafeSetting(
        f"The loss takes logits, and the output comes from the layer {layer.name!r} ({name}),"
        f" behind which {why}: the model would train, and be wrong about whole classes",
        received=name,
        fix="Leave it out, so that the model ends in a layer without an activation; apply"
        " keras.ops.sigmoid or softmax to what predict() returns",
    )


def _side(call: Call, given: list[tuple[int, Any]]) -> tuple[int, Any]:
    """On which side of 0 a tensor is (1, -1, or 0 for both), and the layer that put it there."""
    layer = call.layer
    if isinstance(layer, _NORMS):
        return 1, layer
    kept = given[0] if len({side for side, _ in given}) == 1 else (0, None)
    if isinstance(layer, _KEEP_SIGNS):
        return kept
    function = _function(layer)
    if function is None:
        return _scaled(layer, kept)
    sign = SIGNS.get(function)
    if sign == 0:
        return kept if isinstance(layer, _ACTIVATIONS) else (0, None)
    return (0, None) if sign is None else (sign, layer)


_ACTIVATIONS = (
    keras.layers.Activation,
    keras.layers.ReLU,
    keras.layers.LeakyReLU,
    keras.layers.ELU,
    keras.layers.Softmax,
)


def _function(layer: Any) -> Any:
    """The activation function of a layer, or what it is when a layer of its own applies it."""
    if isinstance(layer, keras.layers.Softmax):
        return activations.softmax
    if isinstance(layer, keras.layers.ReLU | keras.layers.LeakyReLU):
        return activations.leaky_relu if layer.negative_slope else activations.relu
    if isinstance(layer, keras.layers.ELU):
        return activations.elu if layer.alpha > 0.0 else None
    return getattr(layer, "activation", None)


def _scaled(layer: Any, kept: tuple[int, Any]) -> tuple[int, Any]:
    if not isinstance(layer, keras.layers.Rescaling):
        return 0, None
    scale, offset = keras.ops.convert_to_numpy(layer.scale), layer.offset
    if keras.ops.any(keras.ops.not_equal(offset, 0.0)) or not (scale > 0.0).all():
        return 0, None
    return kept
