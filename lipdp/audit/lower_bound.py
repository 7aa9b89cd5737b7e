"""How much privacy an attack has shown to be missing: a lower bound of epsilon."""

from __future__ import annotations

import math

from scipy import stats

from lipdp.errors import InvalidValue
from lipdp.privacy.phase import check_delta, is_number


def epsilon_lower_bound(
    member_guesses: int,
    members: int,
    nonmember_guesses: int,
    nonmembers: int,
    delta: float,
    *,
    confidence: float = 0.95,
) -> float:
    """The epsilon that guesses of membership refute, at a confidence.

    An (epsilon, delta)-private training allows no test with a rate t of true and f of false alarms
    but ``t <= e^epsilon f + delta`` and ``1 - f <= e^epsilon (1 - t) + delta`` (Kairouz, Oh,
    Viswanath 2015, Theorem 2.1). Both rates are taken at the unfavourable ends of two-sided
    Clopper-Pearson intervals.

    Guarantees: for independent guesses the result exceeds the true epsilon with probability at most
    ``1 - confidence``: each of the two one-sided statements fails with half of that.

    Args:
        member_guesses: Members that were called members.
        members: All members that were guessed about.
        nonmember_guesses: Others that were called members.
        nonmembers: All others that were guessed about.
        delta: Of the claimed guarantee.
        confidence: In (0, 1).

    Returns:
        At least 0.

    Raises:
        InvalidValue: If a count or number is outside its domain.
    """
    check_delta(delta)
    if not is_number(confidence) or not 0.0 < confidence < 1.0:
        raise InvalidValue("The confidence must lie between 0 and 1", received=confidence)
    for guesses, rows in ((member_guesses, members), (nonmember_guesses, nonmembers)):
        if (
            type(guesses) is not int
            or type(rows) is not int
            or not 0 <= guesses <= rows
            or not rows
        ):
            raise InvalidValue(
                "Counts must be whole, and no more guesses than rows", received=(guesses, rows)
            )
    tail = (1.0 - confidence) / 2.0
    true_rate = _lower(member_guesses, members, tail)
    false_rate = 1.0 - _lower(nonmembers - nonmember_guesses, nonmembers, tail)
    ratios = ((true_rate - delta, false_rate), (1.0 - false_rate - delta, 1.0 - true_rate))
    return max([0.0, *(math.log(a / b) for a, b in ratios if a > 0.0 and b > 0.0)])


def _lower(successes: int, trials: int, tail: float) -> float:
    """Lower end of the Clopper-Pearson interval."""
    if successes == 0:
        return 0.0
    return float(stats.beta.ppf(tail, successes, trials - successes + 1))
