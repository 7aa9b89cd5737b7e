"""The grid that summed gradients and noise are rounded to: its width, its cost, its range.

What is released and why it is private: ``lipdp/privacy/rounded_gaussian.py``.
"""

from __future__ import annotations

import math
from fractions import Fraction

from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.privacy._exact_normal import REACH
from lipdp.privacy.phase import is_number

#: A grid is at most sigma over this. Rounding the sum moves it by at most w/2, on average over a
#: smooth law ``w^2/12`` of variance: less than 1e-7 of the noise's.
STEPS_PER_STDDEV = 2**10
#: ``w sqrt(n)``, which rounding adds to the sensitivity, is at most D over this: the noise grows by
#: a thousandth.
SENSITIVITY_SHARE = 2**10
#: Below, the grid is a visible part of the noise; above, every draw is so near to a cell's end that
#: it has to be decided by exact arithmetic.
_RATIOS = (2.0**4, 2.0**40)
#: Grids whose multiples and inverse are normal numbers in float32 too.
_WIDTHS = (2.0**-90, 2.0**90)
#: Largest n such that each of 0..n is exact, and the significant bits of the float beside it.
_INTEGERS = {"float32": (2**24, 24), "float64": (2**53, 53), "int32": (2**31 - 1, 24)}


def grid_of(stddev: float, sensitivity: float, size: int) -> float:
    """Coarsest grid that neither the noise nor the sensitivity notices.

    A coarse grid leaves the dtype room for large sums, and draws are decided faster.

    Args:
        stddev: Standard deviation of the noise on one variable, or a lower bound of it: a standard
            deviation that is raised for ``rounded_sensitivity`` afterwards keeps the grid.
        sensitivity: Sensitivity D of the variable's summed gradient before rounding.
        size: Number n of entries of the variable.

    Returns:
        The largest power of two w with ``w <= stddev / 1024`` and ``w sqrt(n) <= D / 1024``.

    Raises:
        InvalidValue: If a number is not positive and finite, or no such grid is in range.
    """
    stddev = _positive("The standard deviation of the noise", stddev)
    sensitivity = _positive("The sensitivity", sensitivity)
    size = count_of(size, least=1)
    most_squared = (Fraction(sensitivity) / SENSITIVITY_SHARE) ** 2 / size
    grid = math.ldexp(1.0, math.frexp(stddev / STEPS_PER_STDDEV)[1])
    while grid > stddev / STEPS_PER_STDDEV or Fraction(grid) ** 2 > most_squared:
        grid /= 2.0
    ratio_of(stddev, grid)
    return grid


def rounded_sensitivity(sensitivity: float, grid: float, size: int) -> float:
    """Sensitivity of the sum after rounding to the grid, ``D + w sqrt(n)``, rounded up.

    Each of two neighbours moves by at most ``w/2`` an entry. The computation rounds four times by
    at most ``2^-53`` of positive terms, less than is added.

    Args:
        sensitivity: Sensitivity D before rounding, at least 0.
        grid: Grid width w, a power of two.
        size: Number n of entries.

    Raises:
        InvalidValue: If an argument is outside its domain.
    """
    if not is_number(sensitivity) or not 0.0 <= sensitivity < math.inf:
        raise InvalidValue("The sensitivity must be finite and at least 0", received=sensitivity)
    added = _width(grid) * math.sqrt(count_of(size, least=1))
    return (float(sensitivity) + added) * (1.0 + 2.0**-50)


def largest_sum(stddev: float, grid: float, dtype: str) -> float:
    """Bound C to which each entry of the sum is clamped, so that its release never rounds.

    The clamp depends on no data and moves no two sums apart. With ``|S| <= C`` and every k that
    can be drawn, ``|k| <= 40 sigma / w``, all of ``S / w``, k and ``S / w + k`` are integers of the
    dtype. ``"int32"`` is for float32 gradients, which leave little room: ``round(g / w)`` is exact
    in float32 at every size (from 2^23 on g / w is whole already), is clamped and cast, and added
    to k as an integer; the cast of the sum back to float32 is post-processing.

    Args:
        stddev: Standard deviation sigma of the noise.
        grid: Grid width w, a power of two.
        dtype: What the sum is computed in: ``"float32"``, ``"float64"`` or ``"int32"``.

    Returns:
        C, a multiple of w, at least 40 sigma; float32 holds it exactly (float64 for "float64").

    Raises:
        UnsafeSetting: If the dtype has no room for both, or is another one.
        InvalidValue: If a number is outside its domain.
    """
    ratio = ratio_of(stddev, grid)
    if dtype not in _INTEGERS:
        raise UnsafeSetting(
            "No exact integers are known of this dtype",
            received=dtype,
            fix=f"Use one of {tuple(_INTEGERS)}",
        )
    noise = math.ceil(REACH * ratio)
    most, digits = _INTEGERS[dtype]
    room = most - noise
    excess = max(0, room.bit_length() - digits)
    room = room >> excess << excess
    if room < noise:
        raise UnsafeSetting(
            f"{dtype} cannot hold sums and noise on a grid this fine",
            received={"stddev": stddev, "grid": grid},
            fix="Add sums and noise in float64 (exact, and cast back after that), or int32",
        )
    return room * float(grid)


def ratio_of(stddev: float, grid: float) -> float:
    """``stddev / grid``, exact as the grid is a power of two.

    Raises:
        InvalidValue: If an argument is outside its domain, or the ratio not in [2^4, 2^40].
    """
    ratio = _positive("The standard deviation of the noise", stddev) / _width(grid)
    if not _RATIOS[0] <= ratio <= _RATIOS[1]:
        raise InvalidValue(
            "The standard deviation must be between 2^4 and 2^40 grid widths",
            received={"stddev": stddev, "grid": grid},
            fix="Use grid_of(), a larger noise multiplier or smaller variables",
        )
    return ratio


def _width(grid: float) -> float:
    grid = _positive("The grid width", grid)
    if math.frexp(grid)[0] != 0.5 or not _WIDTHS[0] <= grid <= _WIDTHS[1]:
        raise InvalidValue(
            "The grid width must be a power of two between 2^-90 and 2^90",
            received=grid,
            fix="Use grid_of()",
        )
    return grid


def _positive(what: str, value: float) -> float:
    if not is_number(value) or not 0.0 < value < math.inf:
        raise InvalidValue(f"{what} must be positive and finite", received=value)
    return float(value)


def count_of(size: int, least: int) -> int:
    """A number of entries, checked.

    Raises:
        InvalidValue: If it is not a whole number of at least ``least``.
    """
    if not is_number(size) or not least <= size < 2**53 or size != int(size):
        raise InvalidValue(f"The size must be a whole number of at least {least}", received=size)
    return int(size)
