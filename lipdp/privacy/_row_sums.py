"""Sums over rows that are clipped to a ball, with a bound of what one row changes them by."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lipdp.rounding import gamma, unit_roundoff

_UNIT = unit_roundoff("float64")
#: Rows at a time, for little memory and little rounding: see ``sensitivity_of_sum``.
_BLOCK = 4096


def clip_rows(x: np.ndarray, radius: float) -> np.ndarray:
    """``x min(1, radius / ||x||)`` for each row, in float64; a non-finite row becomes 0.

    Rows are scaled by ``max(radius, max |x|)``, so that no square overflows. The norm of a computed
    row is at most ``radius (1 + gamma(d + 8))``.

    Args:
        x: Rows, shape (n, d).
        radius: Radius of the ball.
    """
    rows = np.asarray(x, dtype=np.float64)
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    scale = np.maximum(np.abs(rows).max(axis=1, keepdims=True, initial=0.0), radius)
    scaled = rows / scale
    norm = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    with np.errstate(over="ignore"):
        inside = norm * scale <= radius
    return np.where(inside, rows, scaled * (radius / np.where(inside, 1.0, norm)))


def sum_rows(
    x: np.ndarray, radius: float, of_block: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Sum of a function of blocks of clipped rows, in float64."""
    parts = (clip_rows(x[i : i + _BLOCK], radius) for i in range(0, max(len(x), 1), _BLOCK))
    first, *others = map(of_block, parts)
    return sum(others, first)


def sensitivity_of_sum(shape: tuple[int, int], one_row: float, most_rows: int) -> float:
    """Bound of the Euclidean change of a computed sum between neighbours, of n rows or fewer.

    A unit contributes at most ``most_rows`` rows, each of exact norm at most ``one_row``, and
    ``(1 + g) one_row`` as computed, g of the roundings of clipping and of one product. An entry of
    the sum runs over at most ``r = block + blocks`` roundings, so a sum of n rows is exact up to
    ``gamma(r)`` times the sum of absolute values (Higham, section 4.2), of norm at most
    ``n (1 + g) one_row``; that is added for each of the two neighbours.

    Args:
        shape: Shape (n, d) of the rows.
        one_row: Bound of the norm of one row's exact contribution.
        most_rows: Most rows of one unit.
    """
    rows, size = shape[0] + most_rows, shape[1]
    row = one_row * (1.0 + gamma(2 * size + 24, _UNIT))
    roundings = _BLOCK + math.ceil(rows / _BLOCK) + 2
    return row * (most_rows + 2.0 * rows * gamma(roundings, _UNIT)) * (1.0 + 8.0 * _UNIT)
