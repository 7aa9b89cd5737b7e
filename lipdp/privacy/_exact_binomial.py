"""Numbers of successes, drawn exactly: whole numbers decide, however many digits it takes."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable
from dataclasses import dataclass

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
