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

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, final

import numpy as np
from scipy import special

from lipdp.errors import InvalidState
from lipdp.privacy._exact_normal import UniformTail
from lipdp.privacy.noise_grid import count_of, ratio_of
from lipdp.privacy.phase import is_number

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
