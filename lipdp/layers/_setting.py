"""Arguments of layers that cannot change."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from lipdp.errors import InvalidState

_Value = TypeVar("_Value")


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

    def __get__(self, layer: Any, owner: type | None = None) -> _Value:
        values = getattr(layer, "__dict__", {})
        if self._name in values:
            found: _Value = values[self._name]
            return found
        if layer is None or not self._default:
            raise AttributeError(self._name)
        return self._default[0]

    def __set__(self, layer: Any, value: _Value) -> None:
        values = vars(layer)
        if self._name in values or values.get("built"):
            raise InvalidState(
                f"{self._name} of the layer {layer.name!r} cannot change any more",
                received=value,
                fix="Make a new layer with it, and a new model",
            )
        values[self._name] = value
