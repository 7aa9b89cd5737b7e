"""From a layer to its rule, by exact type; anything else is refused."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

import keras

from lipdp.bounds.final import check_final, check_methods
from lipdp.bounds.rules import activations, linear, pooling, structure
from lipdp.bounds.rules.base import LayerBounds, MergeBounds, Shapes
from lipdp.bounds.rules.refusals import way_out
from lipdp.errors import UnsupportedLayer
from lipdp.layers.base import LipschitzLayer

_FAMILIES = (activations, linear, pooling, structure)
_RULES = ChainMap(*(dict(family.RULES) for family in _FAMILIES))


def bounds_of(layer: Any, shapes: Shapes) -> LayerBounds:
    """The proved bounds of a layer of one input.

    Args:
        layer: A layer or operation of a Keras graph.
        shapes: Of the call.

    Raises:
        UnsupportedLayer: If none are known, if the layer inherits its bounds from a concrete layer
            whose code it may have changed, has an attribute that hides a method, was built for
            another shape, now makes another one, or adds a loss that depends on data.
    """
    check_losses(layer)
    if isinstance(layer, LipschitzLayer):
        check_final(layer, LipschitzLayer, "layer")
        _check_constraint(layer)
        _check_shape(layer, shapes.input)
        _check_output(layer, shapes, (None, *shapes.input))
        return layer
    if type(layer) in _RULES:
        check_methods(layer, "layer")
        _check_output(layer, shapes, (None, *shapes.input))
        return _RULES[type(layer)](layer, shapes)
    raise _unknown(layer)


def merge_bounds_of(layer: Any, shapes: Shapes) -> MergeBounds:
    """The proved bounds of a layer that is called on a list of tensors.

    Raises:
        UnsupportedLayer: If none are known, or if the layer now makes another shape.
    """
    check_losses(layer)
    if type(layer) in structure.MERGE_RULES:
        check_methods(layer, "layer")
        _check_output(layer, shapes, [(None, *shape) for shape in shapes.inputs])
        return structure.MERGE_RULES[type(layer)](layer, shapes)
    raise _unknown(layer)


def is_merging(layer: Any) -> bool:
    """Whether a layer makes one tensor of several."""
    return type(layer) in structure.MERGE_RULES


def check_losses(layer: Any) -> None:
    """Refuses a layer or model that adds a loss of its output.

    Raises:
        UnsupportedLayer: If it does.
    """
    if getattr(layer, "activity_regularizer", None) is not None:
        raise UnsupportedLayer(
            f"The activity regulariser of {layer.name!r} adds a loss without a bound",
            received=layer.activity_regularizer,
            fix="Make it without activity_regularizer",
        )


def _unknown(layer: Any) -> UnsupportedLayer:
    name = type(layer).__name__
    return UnsupportedLayer(
        f"The layer {layer.name!r} ({name}) has no proved bound",
        received=name,
        fix=way_out(layer),
    )


def _check_shape(layer: LipschitzLayer, shape: tuple[int, ...]) -> None:
    """A layer states the bounds of the shape that it was built for."""
    built = (layer.get_build_config() or {}).get("input_shape")
    if built is not None and tuple(built[1:]) != shape:
        raise UnsupportedLayer(
            f"The shared layer {layer.name!r} is called on another shape than it was built for",
            received={"built": tuple(built[1:]), "called": shape},
            fix="Use a layer of its own for each shape",
        )


def _check_output(layer: Any, shapes: Shapes, given: Any) -> None:
    """An attribute that was set after the call may make another shape than the graph says."""
    if type(layer).compute_output_shape is keras.layers.Layer.compute_output_shape:
        return
    present = tuple(layer.compute_output_shape(given)[1:])
    if present != shapes.output:
        raise UnsupportedLayer(
            f"The layer {layer.name!r} has changed since it was called",
            received={"called": shapes.output, "now": present},
            fix="Make the model again",
        )


def _check_constraint(layer: LipschitzLayer) -> None:
    """A layer states the bounds of its ``constraint``; optimizers apply that of the variable."""
    stated = getattr(layer, "constraint", None)
    for variable in layer.trainable_variables:
        if variable.constraint is not None:
            check_methods(variable.constraint, "constraint")
        if stated is not None and variable.constraint is not stated:
            raise UnsupportedLayer(
                f"The layer {layer.name!r} has another constraint than its weight",
                received=variable.constraint,
                fix="Give the constraint to the layer when it is made",
            )
