"""A uniform number, known digit by digit, compared exactly with tails of the normal law.

Integers and fractions only: every intermediate number is an interval of integers in units of
``2^-precision``, rounded outwards, so a comparison is right or undecided, never wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

from lipdp.errors import InvalidState

_WORD = 64
#: Digits after which a random source that has not decided yet is taken for broken. A true one gets
#: here with probability below ``2^-800``; on the other hand every tail is at least ``2^-960``
#: then, so that no ``|Z|`` is above 37: ``1 - Phi(37) < 2^-990`` (see ``REACH``).
_MOST_DIGITS = 15 * _WORD
#: Proved bound of every ``|Z|`` that is ever drawn, with room: 37 and a rounding to the grid.
REACH = 40


class UniformTail:
    """A uniform real number p in (0, 1/2) as ``numerator * 2^-length`` and digits yet to come.

    It stands for the upper tail ``p = 1 - Phi(|Z|)`` of a standard Gaussian. The digits are those
    of one infinite random sequence, read when they are needed: reading more of them never changes
    p, so how many are read has no influence on what is decided.

    Args:
        numerator: The digits known so far, below ``2^(length - 1)``.
        length: How many digits that is.
        more: Returns the next 64 digits as an integer.
    """

    def __init__(self, numerator: int, length: int, more: Callable[[], int]) -> None:
        self.numerator = numerator
        self.length = length
        self._more = more

    def extend(self) -> None:
        """Reads 64 more digits.

        Raises:
            InvalidState: If the digits so far are so many that the source must be broken.
        """
        if self.length >= _MOST_DIGITS:
            raise InvalidState(
                "The source of random bits repeats what only a broken one returns",
                fix="Use the operating system's generator, os.urandom",
            )
        self.numerator = (self.numerator << _WORD) | self._more()
        self.length += _WORD

    def reaches(self, x: Fraction) -> bool:
        """Whether ``|Z| >= x``, for x > 0; reads as many digits as that takes, mostly none."""
        while True:
            reached = self._compare(x)
            if reached is not None:
                return reached
            self.extend()

    def _compare(self, x: Fraction) -> bool | None:
        """``|Z| >= x``, or None where the digits so far or the precision do not tell.

        With ``T = int_0^x e^(-t^2/2) dt``: ``|Z| >= x`` if and only if ``p <= 1 - Phi(x)``, that
        is ``1/2 - p >= T / sqrt(2 pi)``, that is ``2 pi (1/2 - p)^2 >= T^2``. Equality has
        probability 0.
        """
        # The largest term of T is below e^(x^2/2), about 1/p: twice the digits make up for that.
        precision = 2 * self.length + _WORD
        low, high = gaussian_integral(x, precision)
        pi_low, pi_high = pi(precision)
        centre = (1 << (self.length - 1)) - self.numerator
        if 2 * pi_low * (centre - 1) ** 2 << _WORD >= high * high:
            return True
        if 2 * pi_high * centre**2 << _WORD < max(low, 0) ** 2:
            return False
        return None


def gaussian_integral(x: Fraction, precision: int) -> tuple[int, int]:
    """Bounds of ``int_0^x e^(-t^2/2) dt = sum (-1)^i x^(2i+1) / (2^i i! (2i+1))``.

    Args:
        x: At least 0.
        precision: The unit of the bounds is ``2^-precision``.
    """
    square = x * x
    up, down = square.numerator, 2 * square.denominator
    return _alternating(x, lambda i: (up, down * (i + 1)), precision)


@functools.lru_cache(maxsize=32)
def pi(precision: int) -> tuple[int, int]:
    """Bounds of ``pi = 16 arctan(1/5) - 4 arctan(1/239)`` (Machin), in units of 2^-precision."""
    low, high = _arctan_inverse(5, precision)
    other_low, other_high = _arctan_inverse(239, precision)
    return 16 * low - 4 * other_high, 16 * high - 4 * other_low


def _arctan_inverse(n: int, precision: int) -> tuple[int, int]:
    return _alternating(Fraction(1, n), lambda i: (1, n * n), precision)


def _alternating(
    first: Fraction, ratio: Callable[[int], tuple[int, int]], precision: int
) -> tuple[int, int]:
    """Bounds of ``sum_i (-1)^i a_i / (2i + 1)`` with ``a_0 = first``, ``a_(i+1) = a_i ratio(i)``.

    The ratios, numerator and denominator, must not increase. Once they are at most 1 the terms
    fall, so that what is left out is at most the first term left out (Leibniz).
    """
    low = (first.numerator << precision) // first.denominator
    high = low + 1
    sum_low = sum_high = 0
    i, (up, down) = 0, ratio(0)
    while high > 1 or up > down:
        near, far = low // (2 * i + 1), high // (2 * i + 1) + 1
        sum_low, sum_high = (
            (sum_low - far, sum_high - near) if i % 2 else (sum_low + near, sum_high + far)
        )
        low, high = low * up // down, -(-high * up // down)
        i += 1
        up, down = ratio(i)
    return sum_low - high, sum_high + high
