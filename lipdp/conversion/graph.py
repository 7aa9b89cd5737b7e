"""A model's layers by their types, and its graph called again with other layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch, update_wrapper
from typing import Any

import keras

from lipdp.errors import InvalidState, UnsupportedLayer

_LIBRARIES = ("keras", "lipdp")


class LayerRules:
    """A ``singledispatch`` function whose rules for library layers hold for no one else's subclass.

    A subclass from elsewhere may compute anything. A rule for that subclass itself, or for a base
    that is no library's, is found as usual.

    Args:
        default: What a layer without a rule gets.
    """

    def __init__(self, default: Callable[[Any], Any]) -> None:
        self._rules = singledispatch(default)
        update_wrapper(self, default)

    def register(self, kind: Any, rule: Callable[[Any], Any] | None = None) -> Any:
        """Adds a rule, as ``singledispatch`` does: with a type, or as a decorator.

        Args:
            kind: Type of the layers, or a rule whose argument is annotated with it.
            rule: From a layer to its result.
        """
        return self._rules.register(kind, rule)

    def __call__(self, layer: Any) -> Any:
        """What the rule of the layer's type makes of it."""
        return self._rules.registry[self._type_with_rule(layer)](layer)

    def has_rule(self, layer: Any) -> bool:
        """Whether a layer has another rule than the default."""
        return self._type_with_rule(layer) is not object

    def _type_with_rule(self, layer: Any) -> type:
        known, kind = self._rules.registry, type(layer)
        return next(a for a in kind.__mro__ if a in known and _inherits(kind, a))


def is_keras(layer: Any) -> bool:
    """Whether a layer or operation is Keras' own, and not a subclass from elsewhere."""
    return _library(type(layer)) == "keras"


def _inherits(kind: type, ancestor: type) -> bool:
    library = _library(ancestor)
    return library not in _LIBRARIES or library == _library(kind)


def _library(kind: type) -> str:
    return kind.__module__.split(".")[0]


def functional(model: keras.Model) -> keras.Model:
    """The model's graph as an uncompiled plain Functional model.

    Raises:
        InvalidState: If the model is not built.
        UnsupportedLayer: If it has no graph.
    """
    if not model.built:
        raise InvalidState(
            f"The model {model.name!r} has no input shape yet",
            fix="Call it on data, or start it with keras.Input(shape)",
        )
    try:
        return keras.Model(model.inputs, model.outputs, name=model.name)
    except (AttributeError, ValueError) as error:
        raise UnsupportedLayer(
            f"The model {model.name!r} has no graph that could be rewritten",
            received=type(model).__name__,
            fix="Use a Sequential model, or keras.Model(inputs, outputs)",
        ) from error


def call_again(model: keras.Model, call: Callable[..., Any]) -> keras.Model:
    """The same graph with ``call(layer, *inputs)`` in place of each ``layer(*inputs)``."""
    return keras.models.clone_model(functional(model), clone_function=_same, call_function=call)


def _same(layer: Any) -> Any:
    return layer
