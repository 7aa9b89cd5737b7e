"""How stated bounds grow with the cotangent's bound."""

from __future__ import annotations

import itertools
from typing import Any

from lipdp.errors import BoundViolation

_COTANGENTS = (1e-3, 0.03, 1.0, 50.0)
#: The factors are products of floats.
_ROUNDING = 1.0 + 2.0**-40


def check_growth(part: str, rule: Any, x: float) -> None:
    """Bounds must not fall as g grows, and grow at most in proportion to it.

    Noise that follows an adaptive threshold relies on it.

    Args:
        part: Name for the message.
        rule: States ``backward_bound`` and ``parameter_bounds``.
        x: Bound of the input.

    Raises:
        BoundViolation: If a bound does not.
    """
    for low, high in itertools.pairwise(_COTANGENTS):
        before = [rule.backward_bound(x, low), *rule.parameter_bounds(x, low)]
        after = [rule.backward_bound(x, high), *rule.parameter_bounds(x, high)]
        for a, b in zip(before, after, strict=True):
            if a > b * _ROUNDING or b > a * (high / low) * _ROUNDING:
                raise BoundViolation(
                    f"{part}: a bound does not grow as it must with g, from {low} to {high}",
                    received=(a, b),
                    fix="It must be nondecreasing in g, and at most in proportion to g",
                )
