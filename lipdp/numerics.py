"""Directed rounding of proved numbers, and checks of arguments."""

from __future__ import annotations

import math
import numbers
from typing import Any

from lipdp.errors import InvalidValue, UnsafeSetting

#: Covers the host's own float64 roundings, a few for each layer of the deepest model.
HOST = 1.0 + 2.0**-40
_UNIT_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}


def unit_roundoff(dtype: str) -> float:
    """Unit round-off u of a dtype: ``fl(a op b) = (a op b)(1 + d)`` with ``|d| <= u``.

    Args:
        dtype: ``"float32"`` or ``"float64"``; others have no proved slack here and are refused.

    Raises:
        UnsafeSetting: If the dtype is not one of the two.
    """
    if dtype not in _UNIT_ROUNDOFF:
        raise UnsafeSetting(
            "No rounding bound is proved for this dtype",
            received=dtype,
            fix="Use float32 or float64 (half and mixed precision are refused)",
        )
    return _UNIT_ROUNDOFF[dtype]


def gamma(n: int, unit: float) -> float:
    """Bound of the relative error of n successive roundings, ``n u / (1 - n u)``.

    A sum or inner product of n terms, in any order, is exact up to ``gamma(n) * sum |terms|``
    (Higham, Lemma 3.1 and section 3.1).

    Args:
        n: Number of roundings, at least 0.
        unit: Unit round-off of the arithmetic.

    Raises:
        InvalidValue: If n is negative or ``n u >= 1``.
    """
    if n < 0 or n * unit >= 1.0:
        raise InvalidValue(
            "The number of roundings has no error bound in this precision",
            received=n,
            fix="Use a smaller layer or float64",
        )
    return n * unit / (1.0 - n * unit)


def product_slack(inner: int, side: float, unit: float) -> float:
    """Relative slack of a computed matrix-vector product, against ``||W||_2 ||x||``.

    ``|fl(W x) - W x| <= gamma_n |W||x|`` entrywise, and ``|| |W| ||_2 <= ||W||_F <=
    sqrt(min side) ||W||_2``.

    Args:
        inner: Length of each inner product.
        side: The smaller side of the matrix.
        unit: Unit round-off of the arithmetic.
    """
    return gamma(inner, unit) * math.sqrt(side)


def times(*factors: float) -> float:
    """Product of bounds in [0, inf]; infinite as soon as a factor is.

    Plain floating point makes NaN of ``0 * inf``, which passes a ``> limit`` test. A zero factor
    does not help an unbounded one: what is computed behind "no bound" may overflow.
    """
    return math.inf if math.inf in factors else math.prod(factors)


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
