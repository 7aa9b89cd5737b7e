"""Keras' own graph as a flat list of calls, nested models inlined."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import keras

from lipdp.bounds.final import hidden_methods
from lipdp.bounds.rules.base import Shapes
from lipdp.bounds.rules.lookup import check_losses
from lipdp.bounds.rules.refusals import is_refused, way_out
from lipdp.errors import InvalidData, InvalidState, UnsupportedLayer

#: What a model computes by.
_CALLED = frozenset(
    {"call", "__call__", "_functional", "_standardize_inputs", "_adjust_input_rank"}
)


@dataclass(frozen=True)
class Call:
    """One use of one layer.

    Attributes:
        layer: The layer (or operation) called.
        inputs: Keys of the tensors that it reads.
        output: Key of the tensor that it makes.
        shapes: Of its inputs and its output.
        given: Dtypes of its inputs, which it may cast to its own.
    """

    layer: Any
    inputs: tuple[int, ...]
    output: int
    shapes: Shapes
    given: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """All calls of a model in topological order, its input keys and its output key."""

    calls: tuple[Call, ...]
    inputs: tuple[int, ...]
    output: int


def graph_of(model: keras.Model) -> Graph:
    """Flattens a built Sequential or Functional model with one output.

    Raises:
        InvalidState: If the model is not built.
        UnsupportedLayer: If it is a subclassed model, whose graph Keras does not know, or has
            several outputs.
    """
    function = _function(model)
    _check_output(model, function)
    keys = count()
    inputs = tuple(next(keys) for _ in function.inputs)
    calls: list[Call] = []
    (output,) = _inline(function, inputs, keys, calls)
    return Graph(tuple(calls), inputs, output)


def _check_output(model: keras.Model, function: Any) -> None:
    if len(function.outputs) != 1 or isinstance(function._outputs_struct, dict):
        raise UnsupportedLayer(
            f"The model {model.name!r} has several outputs, or one in a dict",
            received=function._outputs_struct,
            fix="Use one output tensor",
        )
    if any(function.outputs[0] is given for given in function.inputs):
        raise UnsupportedLayer(
            f"The output of the model {model.name!r} is its input",
            received=function.outputs[0].name,
            fix="Put a layer between them",
        )


def _function(model: keras.Model) -> Any:
    check_losses(model)
    if isinstance(model, keras.Sequential):
        if not model.built or model._functional is None:
            raise InvalidState(
                f"The model {model.name!r} has no input shape yet",
                fix="Start it with keras.Input(...) or lipdp.layers.BoundedInput(shape, radius)",
            )
        _check_call(model)
        return model._functional
    if not hasattr(model, "_nodes_by_depth"):
        raise UnsupportedLayer(
            f"The model {model.name!r} is subclassed and has no graph to prove anything about",
            received=type(model).__name__,
            fix="Use lipdp.Sequential(layers) or lipdp.Model(inputs, outputs)",
        )
    _check_call(model)
    return model


def _check_call(model: keras.Model) -> None:
    """A model that overrides what a call does no longer computes its graph."""
    methods = (type(model).call, type(model).__call__)
    hidden = _CALLED.intersection(hidden_methods(model))
    if hidden or not all(method.__module__.startswith("keras.") for method in methods):
        raise UnsupportedLayer(
            f"The model {model.name!r} overrides call() and no longer computes its graph",
            received=sorted(hidden) or type(model).__name__,
            fix="Use lipdp.Sequential(layers) or lipdp.Model(inputs, outputs)",
        )


def _inline(
    function: Any, inputs: tuple[int, ...], keys: Iterator[int], calls: list[Call]
) -> tuple[int, ...]:
    known = dict(zip((id(t) for t in function.inputs), inputs, strict=True))
    for node in _nodes(function):
        read = tuple(known[id(t)] for t in node.input_tensors)
        _check_single_output(node)
        _check_layer(node.operation)
        _check_positions(node)
        _check_arguments(node)
        if isinstance(node.operation, keras.Model):
            nested = _function(node.operation)
            _check_nested(node, nested)
            _check_dtypes(node, nested)
            made = _inline(nested, read, keys, calls)
        else:
            made = (next(keys),)
            calls.append(_call(node, read, made[0]))
        known.update(zip((id(t) for t in node.outputs), made, strict=True))
    return tuple(known[id(t)] for t in function.outputs)


def _nodes(function: Any) -> Iterator[Any]:
    """Nodes in the order in which Keras runs them (greatest depth first)."""
    for depth in sorted(function._nodes_by_depth, reverse=True):
        yield from (n for n in function._nodes_by_depth[depth] if not n.is_input)


def _call(node: Any, read: tuple[int, ...], made: int) -> Call:
    return Call(
        layer=node.operation,
        inputs=read,
        output=made,
        shapes=Shapes(tuple(_shape(t) for t in node.input_tensors), _shape(node.outputs[0])),
        given=tuple(t.dtype for t in node.input_tensors),
    )


def _check_nested(node: Any, nested: Any) -> None:
    """A nested Sequential can change; and Keras adds or drops an axis where ranks differ."""
    called = _tensors(node.input_tensors, node.outputs)
    present = _tensors(nested.inputs, nested.outputs)
    if called != present:
        raise UnsupportedLayer(
            f"The nested model {node.operation.name!r} takes or makes other tensors than where it "
            "is called",
            received={"called": called, "nested": present},
            fix="Give it inputs of its shape, and make the outer model after the last change",
        )


def _tensors(inputs: list[Any], outputs: list[Any]) -> list[Any]:
    """Shapes of inputs, and shapes and dtypes of outputs."""
    return [*(t.shape[1:] for t in inputs), *((*t.shape[1:], t.dtype) for t in outputs)]


def _check_dtypes(node: Any, nested: Any) -> None:
    """Keras casts to the dtypes of a nested model's inputs, which is no layer and has no bound."""
    for given, taken in zip(node.input_tensors, nested.inputs, strict=True):
        if given.dtype != taken.dtype:
            raise UnsupportedLayer(
                f"The nested model {node.operation.name!r} casts its input to another dtype",
                received={"given": given.dtype, "taken": taken.dtype},
                fix=f"Begin it with keras.Input(shape, dtype={given.dtype!r})",
            )


def _check_single_output(node: Any) -> None:
    if len(node.outputs) != 1:
        raise UnsupportedLayer(
            f"The layer {node.operation.name!r} returns several tensors",
            received=len(node.outputs),
            fix=_fix(node.operation, "Use layers with one output"),
        )


def _check_layer(operation: Any) -> None:
    if not isinstance(operation, keras.layers.Layer):
        raise UnsupportedLayer(
            f"The operation {operation.name!r} of the graph is no layer and has no proved bound",
            received=type(operation).__name__,
            fix="Write keras.layers.Add()([x, y]) for x + y, Multiply()([x, y]) for x * y, "
            "Rescaling(0.5)(x) for 0.5 * x; other operations belong into a layer",
        )


def _check_positions(node: Any) -> None:
    """Keras pairs a dict's tensors with inputs by name; here they would be paired by position."""
    if any(isinstance(given, dict) for given in node.arguments.args):
        raise UnsupportedLayer(
            f"The layer {node.operation.name!r} is called on a dict of tensors",
            received=[sorted(given) for given in node.arguments.args if isinstance(given, dict)],
            fix="Call it on a list of tensors, in the order of its inputs",
        )


def _check_arguments(node: Any) -> None:
    """``layer(x, training=True)`` may make inference another function than the bounds mean."""
    kwargs = {k: v for k, v in node.arguments.kwargs.items() if not _is_nothing(v)}
    extra = {k: v for k, v in kwargs.items() if not _is_default(node.operation, k, v)}
    if extra or len(node.arguments.args) != 1:
        raise UnsupportedLayer(
            f"The layer {node.operation.name!r} is called with more than its input",
            received=extra or len(node.arguments.args),
            fix=_fix(node.operation, "Call it on its input tensor, or list of tensors, alone"),
        )


def _fix(layer: Any, usual: str) -> str:
    """The way out of a call, unless the layer itself has no bound."""
    return way_out(layer) if is_refused(layer) else usual


def _is_default(layer: Any, name: str, value: Any) -> bool:
    """Whether nobody asked for it: Keras writes down ``training=False``, or a layer's own default.

    Augmentation has the default True; ``fit`` and ``predict`` put their own mode in its place.
    """
    if name != "training":
        return False
    parameter = inspect.signature(layer.call).parameters.get(name)
    return value is False or (parameter is not None and value is parameter.default)


def _is_nothing(value: Any) -> bool:
    """None, or one None for each input, as the masks of a nested model of several inputs."""
    return value is None or (isinstance(value, list | tuple) and all(v is None for v in value))


def _shape(tensor: Any) -> tuple[int, ...]:
    shape = tuple(tensor.shape[1:])
    if any(size is None for size in shape):
        raise UnsupportedLayer(
            "A tensor has an axis of unknown size, so its bound is unknown",
            received=tuple(tensor.shape),
            fix="Give the model a fixed input shape",
        )
    return shape


def check_row_shape(model: keras.Model, shape: Sequence[int | None]) -> None:
    """Refuses rows that a model of one input was not built for.

    Pooling, biases and the like grow with the number of positions, which a ``keras.Sequential``
    and a batch of varying size do not compare with that of ``build``. An axis of size 1 at the end
    may be missing or too much, as Keras takes it.

    Args:
        model: A built model. One of several inputs is never a ``Sequential``, and Keras compares
            its arrays itself.
        shape: Of one row, without the batch axis.

    Raises:
        InvalidData: If the model was built for another shape.
    """
    if len(model.inputs) != 1:
        return
    built, row = tuple(model.inputs[0].shape[1:]), tuple(shape)
    if built not in (row, (*row, 1)) and row != (*built, 1):
        raise InvalidData(
            f"The model {model.name!r} was built for rows of another shape, and its bounds are for"
            " that shape alone",
            received=f"rows of shape {row} for a model of {built}",
            fix=f"Pass rows of shape {built}, or build a model for {row}",
        )


def input_spec_of(model: keras.Sequential) -> Any:
    """What a functional model of the same layers demands of its input; None before ``build``."""
    return None if model._functional is None else model._functional.input_spec
