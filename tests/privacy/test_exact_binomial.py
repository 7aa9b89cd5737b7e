"""Exact binomial numbers, against the law in fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from lipdp.privacy.secure_noise import ExactBinomial, _Table


def law(trials, expected):
    """``F(0), F(1), ..., F(N) = 1``, exactly."""
    q = Fraction(expected, trials)
    masses = (math.comb(trials, k) * q**k * (1 - q) ** (trials - k) for k in range(trials + 1))
    return list(itertools.accumulate(masses))


def number_of(ends, u):
    return next(k for k, end in enumerate(ends) if u < end)


settings = st.integers(2, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1)))


@given(settings, st.integers(4, 40))
@example((2, 1), 4)
@example((60, 59), 40)
@example((60, 1), 12)
def test_sums_are_within_their_error(setting, digits):
    trials, expected = setting
    table = _Table.made(trials, expected, digits)
    ends = law(trials, expected)
    unit = 2**digits / (ends[expected] - ends[expected - 1])
    for k, end in enumerate(ends):
        index = min(k - table.least, len(table.sums) - 1)
        known = table.sums[index] if index >= 0 else 0
        assert known <= end * unit < known + table.error


@given(settings, st.integers(4, 16), st.data())
@example((2, 1), 4, None)
def test_what_is_decided_is_decided_by_the_exact_law(setting, digits, data):
    table, ends = _Table.made(*setting, digits), law(*setting)
    one = st.integers(0, 2**digits - 1)
    for known in range(2**digits) if data is None else data.draw(st.lists(one)):
        low, high = Fraction(known, 2**digits), Fraction(known + 1, 2**digits)
        found = table.decided(known, digits)
        assert found is None or ((found == 0 or ends[found - 1] <= low) and high <= ends[found])


@pytest.mark.parametrize(("trials", "expected"), [(2, 1), (7, 2), (30, 29), (60, 20)])
def test_nearly_everything_is_decided_by_enough_digits(trials, expected):
    table, digits = _Table.made(trials, expected, 40), 40
    known = np.random.default_rng(0).integers(2**40, size=1000)
    assert all(table.decided(int(one), digits) is not None for one in known)


@pytest.mark.parametrize(("trials", "expected"), [(2, 1), (9, 2), (9, 8), (40, 13)])
def test_more_digits_decide_what_few_do_not(trials, expected):
    rng, ends, longest = np.random.default_rng(1), law(trials, expected), 0
    for _ in range(500):
        drawn = []

        def bits(count, drawn=drawn):
            drawn.append(f"{rng.integers(2**count):0{count}b}" if count < 60 else "1" * count)
            return int(drawn[-1], 2)

        found = ExactBinomial(trials, expected, bits, digits=3).draw()
        known = "".join(drawn)
        u, unit = Fraction(int(known, 2), 2 ** len(known)), Fraction(1, 2 ** len(known))
        assert number_of(ends, u) == found == number_of(ends, u + unit * Fraction(99, 100))
        longest = max(longest, len(known))
    assert longest > 12


@pytest.mark.parametrize(("trials", "expected"), [(100_000, 256), (10**7, 1024), (50, 49)])
def test_numbers_have_the_published_law(trials, expected):
    rng = np.random.default_rng(2)
    source = ExactBinomial(trials, expected, lambda n: int.from_bytes(rng.bytes(n // 8), "little"))
    numbers = np.array([source.draw() for _ in range(20_000)])
    edges = stats.binom.ppf(np.linspace(0, 1, 11)[1:-1], trials, expected / trials)
    edges = np.unique(np.concatenate([[-1], edges, [trials]]))
    shares = np.diff(stats.binom.cdf(edges, trials, expected / trials))
    counts = np.histogram(numbers, edges + 0.5)[0]
    pearson = np.sum((counts - 20_000 * shares) ** 2 / (20_000 * shares))
    # 5 sigma of a normal deviate.
    assert stats.chi2.sf(pearson, len(shares) - 1) > 5.7e-7


def test_the_first_digits_nearly_always_do():
    """Below 2^-60 up to 2^40 trials, as stated: within ``error`` of an end, or in its digit."""
    for trials, expected in ((2**40, 2**16), (10**7, 5 * 10**5), (1000, 1)):
        table = _Table.made(trials, expected, 128)
        ends = len(table.sums)
        undecided = ends * (Fraction(2 * table.error, table.sums[-1]) + Fraction(2, 2**128))
        assert undecided < Fraction(1, 2**60)
