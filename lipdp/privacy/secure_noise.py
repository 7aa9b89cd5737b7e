"""Gaussian noise rounded to a grid, drawn exactly from a cryptographic generator.

Why. A floating-point sum ``s + noise`` reaches other numbers from one s than from another: its low
bits tell neighbours apart, whatever the standard deviation (Mironov, "On significance of the least
significant bits for differential privacy", CCS 2012; Holohan, Braghin, "Secure random sampling in
differential privacy", ESORICS 2021; Jin, McMurtry, Rubinstein, Ohrimenko, "Are we there yet?
Timing and floating-point attacks on differential privacy systems", S&P 2022).

What is released. Let w be a grid width, a power of two; S the summed gradient, clamped to
``[-L w, L w]`` (L whole, a public constant) and rounded to the nearest multiples of w; and
``k = round(sigma Z / w)``, one an entry, with independent real standard Gaussians Z. Released is
``S + w k``.

It is exactly as private as the real-valued Gaussian mechanism of the same sigma and of the
sensitivity ``rounded_sensitivity(D, w, n)``:

1. Rounding to the nearest commutes with a shift by multiples of w. S is one, so
   ``S + w k = round_w(S + sigma Z)`` outside ties, which have probability 0. What is released is a
   function of the output ``S + sigma Z`` of the real mechanism: post-processing. All accounting of
   the Gaussian mechanism holds unchanged, subsampled and composed too.
2. Neighbours g, h with ``||g - h|| <= D``, both of n entries: clamping moves no two points apart,
   and rounding moves each entry of each of the two by at most w/2, so
   ``||S(g) - S(h)|| <= D + 2 sqrt(n) w/2 = D + w sqrt(n)``. Half of that is not enough: two entries
   just below and just above ``w/2`` round w apart.
3. The law of k is exact: ``P(k) = Phi((k + 1/2) w / sigma) - Phi((k - 1/2) w / sigma)`` holds for
   the integers that ``RoundedGaussian.draw`` returns from uniform bits, not for an approximation.
4. ``S / w``, k and their sum are integers that the dtype represents (``largest_sum``), so that no
   addition or product rounds. What comes after, a division or a cast, is post-processing.

What this does not cover: the time that a draw takes (the rare draw that needs more bits takes
longer; its number shows nothing of the data, but something of the noise), a generator of the
operating system that is weak or observed, noise that is read from memory, and D itself: it must
hold for the summed gradient as computed, the rounding of that sum included. A gradient that is not
a number has no nearest grid point and must be excluded before.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from scipy import special

from lipdp.errors import InvalidState, InvalidValue, UnsafeSetting
from lipdp.privacy.phase import is_number

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


#: Digits of the first try; that more are needed has a probability below 2^-60 up to 2^40 trials.
_DIGITS = 128


class ExactBinomial:
    """Draws K with ``P(K <= k) = F(k)``, F the law of N trials with probability ``b / N`` each.

    K is the k with ``F(k - 1) <= U < F(k)``, U uniform in (0, 1). The first digits of U
    bound it from both sides, as ``_Table`` bounds F; where they do not decide, more digits of both
    are taken. That is exact, since U stays the same number: no draw is repeated or dropped.

    Args:
        trials: N.
        expected: b, at least 1 and less than N. The table has about ``30 sqrt(b)`` entries.
        bits: Returns a whole number of so many uniform random bits.
        digits: Of the first try.

    Guarantees:
        * Whatever is decided is what the exact law says of U
          (``test_what_is_decided_is_decided_by_the_exact_law``), and that with more digits where
          the first do not do (``test_more_digits_decide_what_few_do_not``).
    """

    def __init__(
        self, trials: int, expected: int, bits: Callable[[int], int], *, digits: int = _DIGITS
    ) -> None:
        self._trials, self._expected = trials, expected
        self._bits = bits
        self._digits = digits
        self._first = _Table.made(trials, expected, digits)

    def draw(self) -> int:
        """The next number."""
        digits, table = self._digits, self._first
        known = self._bits(digits)
        while (found := table.decided(known, digits)) is None:
            known = (known << digits) | self._bits(digits)
            digits *= 2
            table = _Table.made(self._trials, self._expected, digits)
        return found


@dataclass(frozen=True)
class _Table:
    """Weights ``t_k = 2^digits P(k) / P(b)``, summed from the left, each a whole number too low.

    From the mode b outwards, t falls by ratios r that fall too: upwards ``(N - k) b / ((k + 1)
    (N - b))``, downwards ``k (N - b) / ((N - k + 1) b)``; ``1 - r`` is at least ``1 / (k + 1)`` or
    ``1 / (N - k + 1)``. Each rounding down loses less than 1, and what was lost before shrinks, so
    after d steps a weight is less than d too low. Where nothing is left, ``t_k < d``, and the
    weights from there on sum to at most ``t_k / (1 - r) <= d (N + 1)``. With D steps on both sides
    together, at most N + 1 on each, all that is lost is less than ``D (N + 1) / 2 + D (N + 1)``.

    Attributes:
        least: The k of the first weight.
        sums: ``c_k``, with ``c_k <= t_0 + ... + t_k < c_k + error``.
        error: ``2 D (N + 1)``.
    """

    least: int
    sums: list[int]
    error: int

    @classmethod
    def made(cls, trials: int, expected: int, digits: int) -> _Table:
        """The table of weights of so many binary digits."""
        n, b = trials, expected
        above = _falling(1 << digits, lambda d: ((n - b - d) * b, (b + d + 1) * (n - b)))
        below = _falling(1 << digits, lambda d: ((b - d) * (n - b), (n - b + d + 1) * b))
        weights = [*reversed(below[1:]), *above]
        error = 2 * (len(above) + len(below)) * (n + 1)
        return cls(b + 1 - len(below), list(itertools.accumulate(weights)), error)

    def decided(self, known: int, digits: int) -> int | None:
        """The k of every U in ``[known, known + 1) / 2^digits``; None if that is not sure.

        ``c_k / (c + error) <= F(k) <= (c_k + error) / c`` with the sum c of all.
        """
        whole = self.sums[-1]
        index = bisect.bisect_right(self.sums, known * whole >> digits)
        before = self.sums[index - 1] if index else 0
        reached = known * whole >= (before + self.error) << digits
        passed = (known + 1) * (whole + self.error) <= self.sums[index] << digits
        return self.least + index if reached and passed else None


def _falling(start: int, ratio: Callable[[int], tuple[int, int]]) -> list[int]:
    """The start, and what is left of it after each ratio, rounded down, until nothing is."""
    weights = [start]
    while True:
        over, under = ratio(len(weights) - 1)
        weight = weights[-1] * over // under
        if weight == 0:
            return weights
        weights.append(weight)


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


#: Margin of a computed quantile z, relative to 1 + z. The largest error of scipy's ``ndtri`` is
#: 7.2e-16 z (documentation of Cephes, its source; the tests measure less); the rounding of its
#: argument adds ``1.26 * 2^-53``, the operations after it ``2^-51 (1 + z)``. This is 1200 times
#: the documented error.
_MARGIN = 2.0**-40
#: ``Phi(-z) / phi(z) <= sqrt(pi/2) < 1.26``: see ``_cells``.
_MILLS = 1.26
_BYTES = 8
#: Draws at a time: few enough to stay in the processor's cache.
_BLOCK = 2**16


@final
class RoundedGaussian:
    """Draws ``k = round(sigma Z / w)`` exactly, as integers.

    Each draw takes 64 fresh bits: a sign, and the first digits of a uniform number p in (0, 1/2),
    the upper tail of ``|Z| = -Phi^-1(p)``. The digits bound p, so ``ndtri`` bounds ``|Z|``; where
    both ends round to the same k, it is decided whatever digits would follow. Otherwise an exact
    comparison with the cell's end decides, and reads more digits if it needs them. That is a share
    of ``3e-12 sigma / w`` of the draws, 3e-9 on a grid of sigma / 1024, and takes half a
    millisecond: beyond ``sigma / w = 2^32`` (more than 10^12 entries at equal noise and
    sensitivity) draws get slow.

    An undecided draw is never drawn again or dropped: that would take mass from exactly the
    draws near the ends of cells, and k would no longer have the law of a rounded Gaussian.

    Args:
        bits: Returns so many random bytes; the operating system's cryptographic generator. Another
            source serves tests, and makes a run that is not private.

    Guarantees:
        * ``P(k) = Phi((k + 1/2) w / sigma) - Phi((k - 1/2) w / sigma)`` exactly, given uniform bits
          and that ``ndtri`` errs by less than a thousand times its documented largest error
          (``test_every_cell_ends_where_the_normal_law_says``,
          ``test_quantiles_are_far_within_the_margin``).
        * A draw that its bits do not decide is decided by more bits
          (``test_a_draw_at_the_end_of_a_cell_is_decided_by_more_bits``).
        * No bit serves two draws (``test_bits_are_fresh``).
        * ``|k| <= 40 sigma / w`` for every draw (``test_no_draw_is_beyond_the_reach``).
    """

    def __init__(self, bits: Callable[[int], bytes] = os.urandom) -> None:
        self._bits = bits

    def draw(self, stddev: float, grid: float, size: int) -> np.ndarray:
        """Independent draws of k.

        Args:
            stddev: Standard deviation sigma of the real noise, in gradient units; 0 draws zeros.
            grid: Grid width w, a power of two.
            size: Number of draws.

        Returns:
            Array of int64 of shape ``(size,)``. The noise is ``grid`` times that.

        Raises:
            InvalidValue: If ``stddev / grid`` is not between 2^4 and 2^40, or an argument is
                outside its domain.
            InvalidState: If the source of bits is broken.
        """
        size = count_of(size, least=0)
        if is_number(stddev) and stddev == 0.0:
            return np.zeros(size, dtype=np.int64)
        ratio = ratio_of(stddev, grid)
        draws = np.empty(size, dtype=np.int64)
        for start in range(0, size, _BLOCK):
            block = draws[start : start + _BLOCK]
            block[:] = self._block(ratio, len(block))
        return draws

    def _block(self, ratio: float, size: int) -> np.ndarray:
        words = self._words(size)
        tails = words >> np.uint64(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = _cells(tails * 2.0**-64, 1.0 / tails, ratio)
        # NaN, of a tail whose 63 digits are all 0, is undecided too.
        for i in np.flatnonzero(~(low == high)):
            low[i] = self._decide(int(tails[i]), ratio)
        return np.where(words & np.uint64(1), -low, low).astype(np.int64)

    def _decide(self, numerator: int, ratio: float) -> int:
        """``|k|``, by bisection between the cells that the margin leaves."""
        tail = UniformTail(numerator, 64, lambda: int(self._words(1)[0]))
        while tail.numerator == 0:
            tail.extend()
        known = tail.numerator / 2**tail.length, 1.0 / tail.numerator
        low, high = (int(end) for end in _cells(*known, ratio))
        low = max(low, 0)
        while low < high:
            middle = (low + high + 1) // 2
            if tail.reaches((middle - Fraction(1, 2)) / Fraction(ratio)):
                low = middle
            else:
                high = middle - 1
        return low

    def _words(self, count: int) -> np.ndarray:
        raw = self._bits(_BYTES * count)
        if len(raw) != _BYTES * count:
            raise InvalidState(
                "The source of random bits returned another number of bytes than asked for",
                received=len(raw),
                fix="Use the operating system's generator, os.urandom",
            )
        return np.frombuffer(raw, dtype="<u8")


def _cells(tail: Any, width: Any, ratio: float) -> tuple[Any, Any]:
    """Least and largest ``|k|`` of the real tails in ``[tail, tail (1 + width)]``, as floats.

    With ``z = -Phi^-1(p)`` is ``-dz/dp = 1 / phi(z)``, so over that interval z falls by
    ``int Phi(-z) / phi(z) dp / p <= sqrt(pi/2) log(1 + width)``: the ratio falls with z (Mills).

    Args:
        tail: Known digits of p, as a number.
        width: One unit of the last digit over ``tail``; infinite where the digits are all 0.
        ratio: ``sigma / w``.
    """
    z = -special.ndtri(tail)
    margin = _MARGIN * (1.0 + z)
    least, most = z - margin - _MILLS * width, z + margin
    return np.floor(ratio * least + 0.5), np.floor(ratio * most + 0.5)
