"""Arithmetic of bounds."""

from __future__ import annotations

import math


def product(*factors: float) -> float:
    """Product of bounds; ``inf`` (no bound) as soon as a factor is, so ``0 * inf`` is no NaN.

    A zero factor with an unbounded one stays unbounded: a computed value behind "no bound" may
    overflow, and then no zero helps.
    """
    return math.inf if math.inf in factors else math.prod(factors)
