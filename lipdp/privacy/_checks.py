"""Checks of arguments."""

from __future__ import annotations

import math
from typing import Any

from lipdp.errors import InvalidValue
from lipdp.privacy.phase import is_number


def ball_radius(value: Any) -> float:
    """A positive radius, far from overflow of its square.

    Raises:
        InvalidValue: If it is none.
    """
    if not is_number(value) or not 1e-30 <= value <= 1e30:
        raise InvalidValue(
            "The radius must be a positive finite number",
            received=value,
            fix="Give a public bound of the rows' norms, from 1e-30 to 1e30",
        )
    return float(value)


def whole(name: str, value: Any) -> int:
    """A whole number of at least 1.

    Raises:
        InvalidValue: If it is none.
    """
    if not is_number(value) or not 1 <= value < math.inf or value != int(value):
        raise InvalidValue(f"{name} must be a whole number of at least 1", received=value)
    return int(value)
