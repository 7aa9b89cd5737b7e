"""What an object was made with cannot change: its bounds and what it computes follow from it.

``Setting`` is one argument of a layer, whose other attributes Keras moves; ``Settled`` is a base of
losses and projections, of which nothing moves.
"""

from __future__ import annotations

import abc
import inspect
from typing import Any, Generic, NoReturn, TypeVar

from lipdp.errors import InvalidState

_Value = TypeVar("_Value")

#: Set in the instance dictionary of a ``Settled`` object as soon as its constructor has returned.
_MADE = "_made"


class Setting(Generic[_Value]):
    """An attribute that the constructor sets, and nobody after it.

    What a layer computes and what it states would otherwise part: ``build`` derives sizes and
    scales from it that the bounds use.

    Args:
        *default: The value where a constructor sets none, if there is one.
    """

    def __init__(self, *default: _Value) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> _Value:
        values = getattr(owner, "__dict__", {})
        if self._name in values:
            found: _Value = values[self._name]
            return found
        if owner is None or not self._default:
            raise AttributeError(self._name)
        return self._default[0]

    def __set__(self, owner: Any, value: _Value) -> None:
        values = vars(owner)
        if self._name in values or values.get("built"):
            refuse_change(owner, self._name, value)
        values[self._name] = value

    def __delete__(self, owner: Any) -> None:
        refuse_change(owner, self._name, "deletion")


class SettledType(abc.ABCMeta):
    """Marks an object once its whole constructor, that of a subclass included, has returned."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """A new object, whose attributes cannot change."""
        made = super().__call__(*args, **kwargs)
        vars(made)[_MADE] = True
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the constructor, which ``__call__`` would hide from help and configurations."""
        whole = inspect.signature(cls.__init__)
        return whole.replace(parameters=[*whole.parameters.values()][1:])


class Settled(metaclass=SettledType):
    """An object whose attributes and methods stay what its constructor left.

    A name that neither the object nor its class knows may be added: nothing reads it but code of
    the class itself, which a private ``fit`` compares before each step.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if _MADE in vars(self) and (name in vars(self) or hasattr(type(self), name)):
            refuse_change(self, name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if _MADE in vars(self):
            refuse_change(self, name, "deletion")
        super().__delattr__(name)


def refuse_change(owner: Any, name: str, value: Any) -> NoReturn:
    """Refuses a new value of a setting.

    Args:
        owner: A layer, loss or projection; its class says in ``_kind`` what the error calls it.
        name: Of the setting.
        value: What it was to become.

    Raises:
        InvalidState: Always.
    """
    kind = getattr(type(owner), "_kind", "object")
    raise InvalidState(
        f"{name} of the {kind} {getattr(owner, 'name', type(owner).__name__)!r} cannot change any "
        "more",
        received=value,
        fix=f"Make a new {kind} with it, and a new model",
    )
