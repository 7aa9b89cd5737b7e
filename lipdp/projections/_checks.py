"""Checks of constructor arguments."""

from __future__ import annotations

import numbers
from typing import Any

from lipdp.errors import InvalidValue

_LEAST, _GREATEST = 1e-30, 1e30


def positive(name: str, value: Any) -> float:
    """The value as a float in [1e-30, 1e30], far from overflow and underflow in float32.

    Raises:
        InvalidValue: If it is not such a number.
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not _LEAST <= float(value) <= _GREATEST:
        raise InvalidValue(
            f"{name} must be a positive finite number",
            received=value,
            fix=f"Give a number from {_LEAST:g} to {_GREATEST:g}",
        )
    return float(value)


def integer(name: str, value: Any) -> int:
    """The value as an integer.

    Raises:
        InvalidValue: If it is none.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise InvalidValue(f"{name} must be an integer", received=value)
    return int(value)


def count(name: str, value: Any) -> int:
    """The value as an integer of at least 1.

    Raises:
        InvalidValue: If it is not such a number.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < 1:
        raise InvalidValue(f"{name} must be an integer of at least 1", received=value)
    return int(value)
