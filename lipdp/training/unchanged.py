"""What a plan was proved for, compared before every step."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import keras
import numpy as np

from lipdp.bounds.final import hidden_methods
from lipdp.errors import InvalidState
from lipdp.losses.wrappers import LossWrapper

#: What may change by design: attributes that Keras moves while it calls a layer. Values of
#: variables may change too, among them weights, adaptive thresholds and the learning rate: bounds
#: are for every weight of its set and every threshold of its range, noise follows the threshold,
#: and the optimizer sees noisy gradients alone. Values of weights are read again when the bounds
#: are proved again. Of an optimizer all options may change, and no method.
MAY_CHANGE = frozenset(
    {
        *("_called", "_losses", "_loss_ids", "_losses_override", "_inbound_nodes"),
        *("_outbound_nodes", "_path", "_parent_path", "training"),
        # Noted down where weights are loaded; a layer that computes with them has another policy.
        *("is_awq_calibrated", "is_gptq_calibrated"),
    }
)
#: What TensorFlow notes down of an object that it saves.
_NOTES = "_self_"
#: What a model computes by; its other attributes are Keras' loop's, and the user's.
_OF_MODELS = frozenset(
    {
        *("_functional", "_layers", "_operations", "_nodes_by_depth", "_inputs", "_outputs"),
        *("_inputs_struct", "_outputs_struct", "_dtype_policy", "autocast", "_trainable"),
        *("_convert_input_args", "_call_has_training_arg", "loss", "optimizer"),
    }
)
#: Methods of a model that show or save and do not train; Keras on TensorFlow has one called loss.
SHOWN = frozenset(
    {"compile", "evaluate", "from_config", "get_config", "loss", "predict", "summary"}
)
#: Objects of these packages are told apart as objects; those of others also by what they hold.
_KNOWN = frozenset(
    {"builtins", "collections", "functools", "jax", "jaxlib", "keras", "lipdp", "numpy"}
    | {"tensorflow", "torch", "types"}
)
_ATOMS = (bool, int, float, complex, str, bytes, type(None), type)
_DEEPEST = 6


class _Same:
    """Equal to itself alone; it holds the object, whose id is not given to another one."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._thing is self._thing

    def __hash__(self) -> int:
        return id(self._thing)


@dataclass(frozen=True)
class _Part:
    """An object and what it was.

    Attributes:
        thing: A layer, model, loss, constraint, variable, node or optimizer.
        kind: Its class.
        whole: Whether an attribute that is new counts as a change.
        size: Number of all its attributes.
        values: What its attributes were.
        held: The same by value.
        items: Of each list, dict or set that holds nothing which can be altered in place.
        loose: Names of others that can be altered in place.
    """

    thing: Any
    kind: type
    whole: bool
    size: int
    values: Mapping[str, Any]
    held: Mapping[str, Any]
    items: Mapping[str, tuple[Any, ...] | frozenset[Any]]
    loose: frozenset[str]

    def changed(self) -> list[str]:
        """Names of attributes that are something else, new or gone; ``__class__`` too."""
        if type(self.thing) is not self.kind:
            return ["__class__"]
        now = vars(self.thing)
        same = map(operator.is_, map(now.get, self.values), self.values.values())
        kept = all(same) and self.values.keys() <= now.keys()
        moved = [] if kept else self._moved(now)
        moved += [
            name
            for name, items in self.items.items()
            if name not in moved and not _has_items(now[name], items)
        ]
        found = [n for n in {*moved, *self.loose} if _held(now.get(n, self)) != self.held[n]]
        if self.whole and len(now) != self.size:
            found += [n for n in now if n not in self.values and not _is_free(n)]
        return found

    def _moved(self, now: Mapping[str, Any]) -> list[str]:
        return [name for name, value in self.values.items() if now.get(name, self) is not value]


class Unchanged:
    """Compares whatever the bounds follow from with what it was when the plan was made.

    Compared are the classes and all attributes of layers, losses, constraints, nodes of the graph
    and variables, but for ``MAY_CHANGE`` and the values of variables; methods that attributes hide;
    which loss and optimizer the model has; and Keras' settings that rules read. The bounds are a
    function of these, of the values of weights, and of code.

    Args:
        model: A model compiled with a private optimizer.
        others: Further objects of which no method may be hidden.

    Guarantees:
        * Whoever sets, deletes or alters in place an option of a layer, a loss or a projection
          after the plan is refused before the next access is recorded.
    """

    def __init__(self, model: keras.Model, *others: Any) -> None:
        self._model = model
        self._parts = tuple(_parts_of(model))
        optimizer = model.optimizer
        models = [one for one in model._flatten_layers() if isinstance(one, keras.Model)]
        inner = optimizer.inner_optimizer
        self._methods = (*models, optimizer, optimizer.noise, inner, *others)
        self._settings = _settings()

    def check(self) -> None:
        """Refuses a step of anything else.

        Raises:
            InvalidState: Naming what changed.
        """
        changed = [
            f"{name} of {_called(part.thing)}" for part in self._parts for name in part.changed()
        ]
        changed += [
            f"{name} of {_called(thing)}"
            for thing in self._methods
            for name in hidden_methods(thing)
            if name not in SHOWN
        ]
        if self._settings != _settings():
            changed.append("keras.config")
        if changed:
            raise InvalidState(
                "The model is no longer what its gradient bounds were proved for",
                received=sorted(set(changed)),
                fix="Let callbacks leave layers, loss and optimizer as they are; make a new model "
                "with other options, and train it by a fit() of its own",
            )


def _settings() -> tuple[Any, ...]:
    """The settings of Keras that rules of layers read."""
    return (keras.config.image_data_format(),)


def _parts_of(model: keras.Model) -> Iterator[_Part]:
    layers = model._flatten_layers(include_self=True)
    yield from map(_part, {id(one.dtype_policy): one.dtype_policy for one in layers}.values())
    for layer in {id(one): one for one in layers}.values():
        yield _part(layer, _OF_MODELS if isinstance(layer, keras.Model) else None)
        for nodes in getattr(layer, "_nodes_by_depth", {}).values():
            yield from (_part(node) for node in nodes)
    loss = model.loss
    while loss is not None:
        yield _part(loss)
        loss = loss.loss if isinstance(loss, LossWrapper) else None
    for variable in model.variables:
        yield _part(variable, frozenset({"_trainable", "_constraint", "_dtype", "_shape"}))
        if variable.constraint is not None:
            yield _part(variable.constraint)
    yield _part(model.optimizer, frozenset({"inner_optimizer", "_mechanism", "_thresholds"}))


def _part(thing: Any, names: frozenset[str] | None = None) -> _Part:
    now = vars(thing)
    kept = [n for n in now if (n in names if names is not None else not _is_free(n))]
    held = {n: _held(now[n]) for n in kept}
    altered = {n: now[n] for n in kept if _is_alterable(now[n])}
    items = {n: _items(value) for n, value in altered.items() if _is_flat(value)}
    loose = frozenset(altered.keys() - items.keys())
    values = {n: now[n] for n in kept}
    return _Part(thing, type(thing), names is None, len(now), values, held, items, loose)


def _is_alterable(value: Any) -> bool:
    """Whether its value is more than which object it is, and can change in place."""
    if isinstance(value, tuple):
        return any(map(_is_alterable, value))
    return not isinstance(value, _ATOMS) and not isinstance(_held(value), _Same)


def _is_flat(value: Any) -> bool:
    single = isinstance(value, list | tuple | set | dict)
    return single and not any(map(_is_alterable, _items(value)))


def _items(value: Any) -> tuple[Any, ...] | frozenset[Any]:
    if isinstance(value, set):
        return frozenset(value)
    return (*value, *value.values()) if isinstance(value, dict) else tuple(value)


def _has_items(value: Any, items: tuple[Any, ...] | frozenset[Any]) -> bool:
    if isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(items, frozenset):
        return bool(value == items)
    return len(value) == len(items) and all(map(operator.is_, value, items))


def _is_free(name: str) -> bool:
    return name in MAY_CHANGE or name.startswith(_NOTES)


def _held(value: Any, depth: int = 0) -> Any:
    """The value, for what can be altered in place; else which object it is."""
    if isinstance(value, _ATOMS):
        return type(value), value
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype), value.shape, value.tobytes()
    parts = _parts_in(value) if depth < _DEEPEST else None
    if parts is None:
        return _Same(value)
    held = (_held(part, depth + 1) for part in parts)
    return frozenset(held) if isinstance(value, set | frozenset) else tuple(held)


def _parts_in(value: Any) -> Iterable[Any] | None:
    if isinstance(value, dict):
        return _items(value)
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    return (vars(value),) if _is_open(value) else None


def _is_open(value: Any) -> bool:
    """Whether it is an object of somebody else's, who may read what it holds."""
    if not hasattr(value, "__dict__") or inspect.isroutine(value) or isinstance(value, ModuleType):
        return False
    return type(value).__module__.partition(".")[0] not in _KNOWN


def _called(thing: Any) -> str:
    return str(getattr(thing, "name", type(thing).__name__))
