"""Sums over rows that are clipped to a ball, with a bound of what one row changes them by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipdp.errors import InvalidData
from lipdp.numerics import gamma, unit_roundoff
from lipdp.privacy.units import number_units

_UNIT = unit_roundoff("float64")
#: Rows at a time, for little memory and little rounding: see ``sensitivity_of_sum``.
_BLOCK = 4096

OfBlock = Callable[[np.ndarray, np.ndarray], np.ndarray]


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


@dataclass(frozen=True)
class UnitRows:
    """Rows of which each protected unit contributes a weighted mean.

    Attributes:
        rows: Shape (n, d).
        weights: Weight of each row, shape (n,); those of one unit add up to 1.
        num_units: Number of units.
    """

    rows: np.ndarray
    weights: np.ndarray
    num_units: int

    @property
    def size(self) -> int:
        """Number of features d."""
        return int(self.rows.shape[1])


def unit_rows(x: Any, groups: Any = None) -> UnitRows:
    """Each row, or all rows of each group, as a unit.

    Args:
        x: Rows, shape (n, d); also an object that gives rows when they are asked for.
        groups: The unit of each row, shape (n,), as in ``number_units``; None if each row is a
            unit.

    Raises:
        InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
    """
    # Rows that are read when asked for are summed block by block, as an array is.
    by_rows = isinstance(getattr(x, "dtype", None), np.dtype) and not hasattr(x, "__array__")
    rows = x if by_rows or isinstance(x, np.ndarray) else np.asarray(x)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or 0 in rows.shape:
        raise InvalidData(
            "Statistics need a matrix of numbers with at least one row and one feature",
            received=f"shape {rows.shape}, dtype {rows.dtype}",
            fix="Pass an array of shape (N, d); flatten images first",
        )
    if groups is None:
        return UnitRows(rows, np.ones(len(rows)), len(rows))
    ids = number_units(groups, len(rows))
    counts = np.bincount(ids)
    return UnitRows(rows, 1.0 / counts[ids], len(counts))


def sum_rows(units: UnitRows, radius: float, of_block: OfBlock) -> np.ndarray:
    """Sum over blocks of a function of clipped rows and of the same rows times their weights."""
    total: np.ndarray = np.zeros(())
    low: np.ndarray = np.zeros(())
    for start in range(0, len(units.rows), _BLOCK):
        rows = clip_rows(units.rows[start : start + _BLOCK], radius)
        part = of_block(rows, rows * units.weights[start : start + _BLOCK, None])
        # The exact error of each sum of two numbers is kept (Knuth).
        new = total + part
        shift = new - total
        low = low + ((total - (new - shift)) + (part - shift))
        total = new
    return total + low


def sensitivity_of_sum(num_units: int, size: int, one_row: float, terms: int = 1) -> float:
    """Bound of the Euclidean change of a computed sum between neighbours.

    A unit contributes a weighted mean of rows that add at most ``one_row`` each, so at most
    ``one_row``; ``(1 + g) one_row`` as computed, g of the roundings of clipping, weights and
    products. Within a block an entry sums ``4096 terms`` numbers; the sum of the blocks keeps its
    rounding errors, and is then exact up to two roundings more for up to 2^32 rows (Ogita, Rump,
    Oishi 2005, Proposition 4.5). So a sum over N units is exact up to ``gamma(4096 terms + 4)``
    times the sum of absolute values, of norm at most ``N (1 + g) one_row`` (Higham, section 4.2);
    that is added for each of the two neighbours.

    Args:
        num_units: Number N of units, public.
        size: Number d of features.
        one_row: Bound of the norm of one row's exact contribution, and of its absolute values if
            each entry is a sum itself.
        terms: How many products of a row an entry sums.
    """
    unit = one_row * (1.0 + gamma(2 * size + 32, _UNIT))
    rounding = 2.0 * (num_units + 1) * gamma(_BLOCK * terms + 4, _UNIT)
    return unit * (1.0 + rounding) * (1.0 + 8.0 * _UNIT)
