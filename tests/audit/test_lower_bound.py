import math

import numpy as np
import pytest
from scipy import stats

from lipdp.audit import epsilon_lower_bound
from lipdp.errors import InvalidValue


def test_a_published_value():
    """620 of 1000 members and 380 of 1000 others called members, delta 1e-5."""
    assert epsilon_lower_bound(620, 1000, 380, 1000, 1e-5) == pytest.approx(0.3602, abs=5e-5)


def test_it_agrees_with_exact_intervals_of_scipy():
    low = stats.binomtest(70, 100).proportion_ci(0.9, method="exact").low
    high = stats.binomtest(20, 100).proportion_ci(0.9, method="exact").high
    found = epsilon_lower_bound(70, 100, 20, 100, 1e-3, confidence=0.9)
    expected = max(math.log((low - 1e-3) / high), math.log((1 - high - 1e-3) / (1 - low)))
    assert found == pytest.approx(expected, rel=1e-9)


def test_chance_shows_nothing_and_certainty_much():
    assert epsilon_lower_bound(500, 1000, 500, 1000, 1e-5) == 0.0
    assert epsilon_lower_bound(0, 10, 10, 10, 1e-5) == 0.0
    assert epsilon_lower_bound(1000, 1000, 0, 1000, 1e-5) == pytest.approx(5.6, abs=0.1)


def test_it_rarely_exceeds_the_truth():
    """Randomised response at epsilon 1 attains it: 5 % of 4000 audits at most, and 5 sigma."""
    rng = np.random.default_rng(0)
    rate = math.e / (1 + math.e)
    hits = rng.binomial(300, rate, 4000), rng.binomial(300, 1 - rate, 4000)
    above = np.mean(
        [
            epsilon_lower_bound(int(a), 300, int(b), 300, 1e-9) > 1.0
            for a, b in zip(*hits, strict=True)
        ]
    )
    assert above <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.parametrize(
    "arguments",
    [
        (5, 4, 0, 4, 1e-5),
        (-1, 4, 0, 4, 1e-5),
        (0, 0, 0, 4, 1e-5),
        (1, 4, 0, 4, 0.0),
        (0.5, 4, 0, 4, 0.1),
    ],
)
def test_impossible_counts_are_refused(arguments):
    with pytest.raises(InvalidValue):
        epsilon_lower_bound(*arguments)
