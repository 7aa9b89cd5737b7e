"""How many rows a padded batch holds, and what the overflow costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

from lipdp.errors import InvalidValue
from lipdp.privacy.phase import check_delta, check_sampling_rate, check_steps, is_number

#: The part of delta that all overflows together may take.
_SHARE = 1e-3
#: scipy's binomial tails agree with exact sums to 1e-10 relative; this is added to them.
_TAIL_ERROR = 1e-6
_ROUND_TO = 8


@dataclass(frozen=True)
class Capacity:
    """Rows of a padded batch.

    Attributes:
        rows: Rows c that fit; of a larger draw a uniformly random c are kept.
        overflow_probability_per_step: Price in delta of one step, ``P(Binomial(N, q) >= c)``.
    """

    rows: int
    overflow_probability_per_step: float


def capacity(num_examples: int, sampling_rate: float, steps: int, delta: float) -> Capacity:
    """Least capacity whose overflow takes at most a thousandth of delta over all steps.

    Where fewer than c of the *other* rows are drawn, the row in question always fits, in both
    neighbours alike, and the step is the plain mechanism. The larger neighbour of N rows has N
    other rows, so what is left has probability at most ``P(Binomial(N, q) >= c)`` a step, and
    such an event adds at most its probability to delta. With ``c = N + 1`` nothing overflows
    and the price is exactly 0; with ``c = N`` it is not: one row more may be drawn.

    Args:
        num_examples: Number N of rows.
        sampling_rate: Probability q that one row is drawn.
        steps: Number of steps that are planned.
        delta: The delta of the whole guarantee.

    Raises:
        InvalidValue: If an argument is outside its domain.
    """
    if not is_number(num_examples) or num_examples < 1 or num_examples != int(num_examples):
        raise InvalidValue(
            "The number of rows must be a whole number of at least 1", received=num_examples
        )
    check_sampling_rate(sampling_rate)
    check_steps(steps)
    check_delta(delta)
    allowed = _SHARE * delta / max(1, steps)
    rows = _least_rows(int(num_examples), sampling_rate, allowed)
    rows = min(-(-rows // _ROUND_TO) * _ROUND_TO, int(num_examples) + 1)
    return Capacity(rows, overflow_probability(int(num_examples), sampling_rate, rows))


def overflow_probability(num_examples: int, sampling_rate: float, rows: int) -> float:
    """Upper bound of ``P(Binomial(N, q) >= rows)``; exactly 0 where rows exceed N."""
    if rows > num_examples:
        return 0.0
    tail = float(stats.binom.sf(rows - 1, num_examples, sampling_rate))
    if not math.isfinite(tail):
        return 1.0
    return min(1.0, tail * (1.0 + _TAIL_ERROR) + math.ulp(0.0))


def _least_rows(num_examples: int, sampling_rate: float, allowed: float) -> int:
    low, high = 0, num_examples + 1
    while high - low > 1:
        middle = (low + high) // 2
        if overflow_probability(num_examples, sampling_rate, middle) <= allowed:
            high = middle
        else:
            low = middle
    return high
