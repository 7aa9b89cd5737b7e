"""A plain Keras model as one that can be trained privately."""

from __future__ import annotations

import inspect
import math
from typing import Any

import keras
import numpy as np

from lipdp.bounds.graph import graph_of
from lipdp.bounds.steps import step_of
from lipdp.conversion.counterparts import counterpart, head_of
from lipdp.conversion.graph import call_again, functional
from lipdp.conversion.options import Change, check_call
from lipdp.errors import UnsupportedLayer
from lipdp.layers import BoundedEmbedding, BoundedInput
from lipdp.numerics import positive
from lipdp.training import Model

#: Layers whose output is still what the records hold: the ball comes behind them, or behind all
#: but a last factor.
_PREPROCESSING = (
    keras.layers.RandomBrightness,
    keras.layers.RandomContrast,
    keras.layers.RandomErasing,
    keras.layers.RandomFlip,
    keras.layers.RandomRotation,
    keras.layers.RandomShear,
    keras.layers.RandomTranslation,
    keras.layers.RandomZoom,
    keras.layers.Rescaling,
)

#: Layers that need no bounded input.
_UNBOUNDED = (BoundedEmbedding, BoundedInput, *_PREPROCESSING)


def convert(
    model: keras.Model, *, input_radius: float | None = None
) -> tuple[Model, tuple[Change, ...]]:
    """Proposes the Lipschitz counterpart of a plain Keras model, layer by layer.

    Nothing is swapped silently: every difference is a ``Change``. The given model is left alone,
    and no weight is taken over (a weight that was trained may know the rows it was trained on).

    Args:
        model: A built Sequential or Functional model of plain Keras layers.
        input_radius: Euclidean norm to which each record is clipped, in the units behind leading
            preprocessing (``Rescaling`` and augmentation); if None, the norm of a record whose
            entries are all 1 there.

    Returns:
        The converted model, not compiled, and the changes in the order of the graph.

    Raises:
        InvalidState: If the model is not built.
        UnsupportedLayer: If it has no graph, an option or argument that no counterpart has, or
            layers without a counterpart (all of these are named).
    """
    radius = None if input_radius is None else positive("input_radius", input_radius)
    calls = _Calls(_last_layer(functional(model)), radius)
    rewritten = call_again(model, calls)
    made = Model(rewritten.inputs, rewritten.outputs, name=model.name)
    _check_bounds(made)
    return made, tuple(calls.changes)


class _Calls:
    """Calls each layer's counterpart; a layer that is used twice has one counterpart."""

    def __init__(self, last: Any, radius: float | None, *, nested: bool = False) -> None:
        self.changes: list[Change] = []
        self._last = last
        self._radius = radius
        self._is_nested = nested
        self._made: dict[int, tuple[Any, ...]] = {}
        self._bounded: dict[int, Any] = {}

    def __call__(self, layer: Any, *given: Any, **kwargs: Any) -> Any:
        # The inputs may have been given by name.
        names = list(inspect.signature(layer.call).parameters)
        inputs, *args = given or (kwargs.pop(names[0], None),)
        check_call(layer, tuple(args), kwargs, has_rule=counterpart.has_rule(layer))
        layers = self._counterparts(layer)
        if _is_factor(layer) or not any(isinstance(made, _UNBOUNDED) for made in layers):
            factor = abs(layer.scale) if _is_factor(layer) else 1.0
            inputs = keras.tree.map_structure(lambda t: self._bound(t, factor), inputs)
        for made in layers:
            inputs = made(inputs)
        return inputs

    def _counterparts(self, layer: Any) -> tuple[Any, ...]:
        if id(layer) not in self._made:
            nested = isinstance(layer, keras.Model)
            self._made[id(layer)] = self._inside(layer) if nested else self._found(layer)
        return self._made[id(layer)]

    def _found(self, layer: Any) -> tuple[Any, ...]:
        found = head_of(layer) if layer is self._last else counterpart(layer)
        if found.why is not None:
            now = tuple(type(made).__name__ for made in found.layers)
            self.changes.append(Change(layer.name, type(layer).__name__, now, found.why))
        return found.layers

    def _inside(self, model: keras.Model) -> tuple[Any, ...]:
        inner = _Calls(self._last, self._radius, nested=True)
        made = call_again(model, inner)
        self.changes += inner.changes
        return (made,)

    def _bound(self, tensor: Any, factor: float) -> Any:
        """A tensor that comes straight from an input, projected on a ball; ``factor`` follows."""
        if self._is_nested or not _is_raw(tensor):
            return tensor
        if id(tensor) not in self._bounded:
            shape = tuple(tensor.shape[1:])
            radius = (self._radius or math.sqrt(math.prod(shape))) / factor
            self._bounded[id(tensor)] = BoundedInput(shape, radius)(tensor)
            why = f"every record is clipped to the norm {radius:g}"
            name = tensor._keras_history.operation.name
            self.changes.append(Change(name, "input", ("BoundedInput",), why))
        return self._bounded[id(tensor)]


def _is_raw(tensor: Any) -> bool:
    """Whether nothing but preprocessing lies between an input of the model and a tensor."""
    made_by = tensor._keras_history.operation
    raw = isinstance(made_by, (keras.layers.InputLayer, *_PREPROCESSING))
    return raw and not _is_factor(made_by)


def _is_factor(layer: Any) -> bool:
    """Whether a layer only multiplies by a number: the ball can stand in front of it.

    There every layer has a bounded input, which certificates need.
    """
    rescaling = type(layer) is keras.layers.Rescaling and np.ndim(layer.scale) == 0
    return rescaling and layer.scale != 0 and not np.any(layer.offset)


def _last_layer(model: keras.Model) -> Any:
    """The layer that makes the output, inside nested models too."""
    last = model.outputs[0]._keras_history.operation
    return _last_layer(functional(last)) if isinstance(last, keras.Model) else last


def _check_bounds(model: keras.Model) -> None:
    """Names every layer of the converted model that has no rule, at once."""
    unknown = []
    for call in graph_of(model).calls:
        try:
            step_of(call, (1.0,) * len(call.inputs))
        except UnsupportedLayer as error:
            unknown.append(str(error))
    if unknown:
        raise UnsupportedLayer(
            "Some layers have no Lipschitz counterpart:\n" + "\n".join(unknown),
            received=model.name,
            fix="Replace them, or register a rule with lipdp.conversion.counterpart.register",
        )
