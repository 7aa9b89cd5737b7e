"""Products of bounds, where "no bound" is infinity."""

from __future__ import annotations


def times(a: float, b: float) -> float:
    """Product of two bounds in [0, inf]; 0 times inf is 0.

    A factor 0 says that the vector is exactly zero (or the map exactly constant), whatever the
    other factor is; plain floating point would return NaN, which passes a ``> limit`` test.
    """
    return 0.0 if a == 0.0 or b == 0.0 else a * b
