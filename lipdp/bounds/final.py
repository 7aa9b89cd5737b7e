"""Who may inherit what is proved, and that no object differs from its class."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator
from functools import lru_cache
from types import FunctionType
from typing import Any, cast

from lipdp.errors import UnsupportedLayer
from lipdp.setting import Setting

#: What states a bound, of layers, losses and projections.
_STATING = frozenset(
    {
        *("forward_bound", "backward_bound", "parameter_bounds", "lipschitz", "rounding"),
        *("norm_bound", "bound_of", "spectral_bound"),
    }
)
#: What subclasses define without changing what is computed.
_HARMLESS = frozenset({"__init__", "get_config", "from_config", "task"})
#: Keras wraps these in each layer of its own accord.
_WRAPPED = frozenset({"build", "quantize"})


def check_final(thing: Any, base: type, kind: str) -> None:
    """Refuses an object whose own code may break the bounds that it inherits.

    Nobody may subclass a concrete class of this package. Of an abstract one that states bounds,
    a subclass fills in what is missing; one that overrides more must state all bounds by itself.
    No attribute of an object may hide a method, or a constant, of its class.

    Args:
        thing: A layer, a loss or a projection.
        base: The abstract class that says what must be proved; what is beside it in its module may
            be extended, and so may other abstract classes.
        kind: What the error calls it.

    Raises:
        UnsupportedLayer: If it may break them.
    """
    check_methods(thing, kind)
    own = base.__module__.rpartition(".")[0]
    if type(thing).__module__.startswith(f"{own}."):
        _check_constants(thing, own, kind)
        return
    for ancestor in type(thing).__mro__[1:]:
        extendable = ancestor.__module__ == base.__module__ or inspect.isabstract(ancestor)
        if issubclass(ancestor, base) and not extendable:
            raise _inherits(thing, ancestor, base, kind)
    _check_overrides(thing, base, kind)


def _check_overrides(thing: Any, base: type, kind: str) -> None:
    """An abstract class states bounds of what it computes, and its subclass computes another."""
    own = f"{base.__module__.rpartition('.')[0]}."
    ours = [
        ancestor
        for ancestor in type(thing).__mro__
        if issubclass(ancestor, base)
        and ancestor.__module__.startswith(own)
        and ancestor.__module__ != base.__module__
    ]
    if not ours or not any(_owner(type(thing), name) in ours for name in _STATING):
        return
    filled = {name for ancestor in ours for name in getattr(ancestor, "__abstractmethods__", ())}
    others = (c for c in type(thing).__mro__ if not any(issubclass(a, c) for a in ours))
    defined = {name for other in others for name in vars(other)}
    changed = {
        name
        for name in defined - filled - _HARMLESS
        if _is_computing(name) and any(hasattr(ancestor, name) for ancestor in ours)
    }
    if changed:
        raise UnsupportedLayer(
            f"The {kind} {_name(thing)!r} overrides {', '.join(sorted(changed))} and inherits the "
            f"bounds of {ours[0].__name__}",
            received=type(thing).__name__,
            fix=f"Subclass {base.__module__}.{base.__name__} and state the bounds",
        )


def _is_computing(name: str) -> bool:
    """Whether a name is a method or a constant, and not what Python notes down of a class."""
    return name == "__call__" or not (name.startswith("__") or name == "_abc_impl")


def _owner(kind: type, name: str) -> type | None:
    return next((ancestor for ancestor in kind.__mro__ if name in vars(ancestor)), None)


def check_methods(thing: Any, kind: str, allowed: frozenset[str] = frozenset()) -> None:
    """Refuses an object with an attribute that hides a method of its class.

    Args:
        thing: Any object.
        kind: What the error calls it.
        allowed: Methods that decide nothing.

    Raises:
        UnsupportedLayer: If there is one.
    """
    hidden = {name for name in hidden_methods(thing) if name not in allowed}
    if hidden:
        raise UnsupportedLayer(
            f"The {kind} {_name(thing)!r} has attributes that hide methods of its class",
            received=sorted(hidden),
            fix="Delete them, such as by `del layer.call`; what is yours goes into a class that "
            "states its bounds",
        )


def hidden_methods(thing: Any) -> Iterator[str]:
    """Names of methods that an attribute of the object hides from those who call them."""
    values = vars(thing)
    for name in values.keys() & _methods(cast(Hashable, type(thing))):
        if name not in _WRAPPED or not _is_wrapper(values[name], type(thing), name):
            yield name


@lru_cache(maxsize=512)
def _methods(kind: Any) -> frozenset[str]:
    return frozenset(
        name
        for ancestor in kind.__mro__
        for name, value in vars(ancestor).items()
        if isinstance(value, FunctionType | classmethod | staticmethod)
    )


def _is_wrapper(value: Any, kind: type, name: str) -> bool:
    """Whether it is what Keras puts around a method of the class, or of one that it inherits.

    The first Functional model of a class is made before Keras puts its own class among the bases.
    """
    wrapped = getattr(getattr(value, "__wrapped__", None), "__func__", None)
    return any(wrapped is vars(ancestor).get(name, value) for ancestor in kind.__mro__)


def _check_constants(thing: Any, own: str, kind: str) -> None:
    """What classes of this package say of themselves, as that their backward pass is linear."""
    hidden = vars(thing).keys() & _constants(cast(Hashable, type(thing)), own)
    if hidden:
        raise UnsupportedLayer(
            f"The {kind} {_name(thing)!r} has attributes that hide constants of its class",
            received=sorted(hidden),
            fix=f"Make a new {kind}, and a new model",
        )


@lru_cache(maxsize=512)
def _constants(kind: Any, own: str) -> frozenset[str]:
    """Names that neither a constructor nor Keras sets."""
    return frozenset(
        name
        for ancestor in kind.__mro__
        if ancestor.__module__.startswith(f"{own}.")
        for name, value in vars(ancestor).items()
        if not isinstance(value, Setting) and name not in _SET_BY_CONSTRUCTORS
    )


#: Of losses that wrap another one they are that one's.
_SET_BY_CONSTRUCTORS = frozenset({"task", "positions", "_axis"}) | _WRAPPED


def _inherits(thing: Any, ancestor: type, base: type, kind: str) -> UnsupportedLayer:
    return UnsupportedLayer(
        f"The {kind} {_name(thing)!r} inherits the bounds of {ancestor.__name__}, which is final",
        received=type(thing).__name__,
        fix=f"Subclass {base.__module__}.{base.__name__} and state the bounds",
    )


def _name(thing: Any) -> str:
    return str(getattr(thing, "name", type(thing).__name__))
