"""A model's graph, called again with other layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from lipdp.errors import InvalidState, UnsupportedLayer


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
