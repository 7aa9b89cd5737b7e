"""Renyi divergences where a row is replaced, against the mixtures themselves."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.privacy.rdp import orders, replaced_divergences

WHOLE = orders()[orders() % 1.0 == 0.0]


def _log_density(mixture, x, y, noise):
    """Of normal densities in the plane, up to a constant: pairs of centre and weight."""
    parts = [
        math.log(weight) - ((x - a) ** 2 + (y - b) ** 2) / (2 * noise**2)
        for (a, b), weight in mixture
        if weight > 0
    ]
    return np.logaddexp.reduce(parts)


def _renyi(first, second, noise, order, flat=False):
    """By a sum over a grid, which is exact up to 1e-9 for sums of smooth normal densities."""
    reach = (10.0 + 1.3 * order / noise) * noise + 3.0
    x = np.linspace(-reach, reach, 4001 if flat else 501)
    y = np.zeros(1) if flat else x
    x, y = np.meshgrid(x, y)
    p, q = (_log_density(one, x, y, noise) for one in (first, second))
    log = order * p + (1 - order) * q
    norm = q.max()
    ratio = np.exp(log - log.max()).sum() / np.exp(q - norm).sum()
    return (math.log(ratio) + log.max() - norm) / (order - 1)


def _rows(angles):
    return [(math.cos(angle), math.sin(angle)) for angle in angles]


@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.3, 0.7, 0.97])
@pytest.mark.parametrize("noise", [0.4, 1.0, 3.0, 12.0])
def test_poisson_bound_holds_at_its_worst_pair_and_is_close(rate, noise):
    first = [((0, 0), 1 - rate), ((1, 0), rate)]
    second = [((0, 0), 1 - rate), ((-1, 0), rate)]
    chosen = np.array([2.0, 3.0, 4.0, 7.0, 12.0])
    bounds = replaced_divergences(chosen, rate, noise, fixed_size=False)
    true = np.array([_renyi(first, second, noise, order, flat=True) for order in chosen])
    assert np.all(bounds >= true * (1 - 1e-9))
    if noise >= 3.0 and rate < 0.5:
        assert bounds[0] <= 1.2 * true[0]


@given(
    angles=st.lists(st.floats(0, 2 * math.pi), min_size=2, max_size=2),
    rate=st.floats(0.01, 0.99),
    noise=st.floats(0.5, 4.0),
    order=st.integers(2, 6),
)
def test_poisson_bound_holds_for_rows_in_any_direction(angles, rate, noise, order):
    u, v = _rows(angles)
    first, second = [((0, 0), 1 - rate), (u, rate)], [((0, 0), 1 - rate), (v, rate)]
    bound = replaced_divergences(np.array([order * 1.0]), rate, noise, fixed_size=False)[0]
    assert bound >= _renyi(first, second, noise, order) * (1 - 1e-9)


def _sums(rows, size):
    """The mixture of the sums of all sets of rows of a size."""
    sets = list(itertools.combinations(rows, size))
    return [(tuple(np.sum(one, axis=0)), 1 / len(sets)) for one in sets]


@given(
    angles=st.lists(
        st.sampled_from([0.0, math.pi / 3, math.pi / 2, math.pi, 4.0]), min_size=4, max_size=6
    ),
    size=st.integers(1, 3),
    noise=st.sampled_from([0.6, 1.5, 4.0]),
    order=st.integers(2, 5),
)
def test_fixed_size_bound_holds_for_every_sum_over_all_batches(angles, size, noise, order):
    replaced, replacement, *others = _rows(angles)
    first, second = _sums([*others, replaced], size), _sums([*others, replacement], size)
    if size > len(others):
        return
    rate = size / (len(others) + 1)
    bound = replaced_divergences(np.array([order * 1.0]), rate, noise, fixed_size=True)[0]
    assert bound >= _renyi(first, second, noise, order) * (1 - 1e-9)


def test_fixed_size_bound_holds_where_the_other_rows_cancel_the_row():
    """Rows at +D against others at -D: the row that is drawn instead is the farthest one."""
    for size, count in [(1, 2), (1, 5), (2, 4), (3, 6)]:
        others = [(-1.0, 0.0)] * (count - 1)
        first = _sums([*others, (1.0, 0.0)], size)
        second = _sums([*others, (-1.0, 0.0)], size)
        for one, other in [(first, second), (second, first)]:
            for order in (2.0, 3.0, 5.0, 8.0):
                bound = replaced_divergences(np.array([order]), size / count, 2.0, fixed_size=True)
                assert bound[0] >= _renyi(one, other, 2.0, order, flat=True) * (1 - 1e-9)


def _exact(rate, noise, order, fixed_size):
    """The formula of the bound with hundreds of digits."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(400):
        q, square = mp.mpf(rate), 1 / mp.mpf(noise) ** 2
        total = mp.mpf(0)
        for j in range(2, order + 1):
            x = (j - 1) * square
            drawn = min((mp.e ** (4 * x) - 1) ** (mp.mpf(j) / 2), 2 * mp.e ** (2 * j * x))
            if fixed_size:
                apart = 2 * mp.e ** (4 * x) - 2 * mp.e ** (2 * x)
                moment = min(apart ** (mp.mpf(j) / 2), 2 * mp.e ** (2 * j * x))
            else:
                kept = min((4 * mp.sinh(x)) ** (mp.mpf(j) / 2), 2 * mp.e ** (j * x / 2))
                moment = (1 - q) * kept + q * drawn
            total += mp.binomial(order, j) * q**j * moment
        return mp.log1p(total) / (order - 1)


@pytest.mark.parametrize("fixed_size", [False, True])
@pytest.mark.parametrize("noise", [0.01, 0.3, 1.0, 10.0, 1e3, 1e6, 1e40])
def test_rounding_never_takes_away(noise, fixed_size):
    for rate in (1e-7, 0.01, 0.9):
        found = replaced_divergences(WHOLE, rate, noise, fixed_size=fixed_size)
        for order in (2, 3, 8, 31, 128):
            value, exact = found[list(WHOLE).index(order)], _exact(rate, noise, order, fixed_size)
            assert exact <= value <= exact * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("fixed_size", [False, True])
def test_rounding_never_takes_away_at_any_whole_order(fixed_size):
    for noise in (0.7, 5.0, 40.0):
        found = replaced_divergences(WHOLE, 0.3, noise, fixed_size=fixed_size)
        for order, value in zip(WHOLE, found, strict=True):
            if order <= 256:
                exact = _exact(0.3, noise, int(order), fixed_size)
                assert exact <= value <= exact * (1 + 1e-9)


def test_less_than_any_number_is_not_nothing():
    assert replaced_divergences(WHOLE, 1e-9, 1e300, fixed_size=True).min() > 0.0


def test_the_published_bound_for_a_fixed_size_is_looser():
    """Wang, Balle, Kasiviswanathan 2019, Theorem 27, as dp-accounting computes it: 4 times."""
    from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent, rdp
    from dp_accounting.privacy_accountant import NeighboringRelation

    few = np.array([2.0, 3.0, 5.0])
    for count, noise in [(100, 6.0), (1000, 4.0), (20, 8.0)]:
        accountant = rdp.RdpAccountant(few, NeighboringRelation.REPLACE_ONE)
        event = GaussianDpEvent(noise / 2.0)
        accountant.compose(SampledWithoutReplacementDpEvent(count, 10, event))
        ours = replaced_divergences(few, 10 / count, noise, fixed_size=True)
        assert np.all(ours <= 0.6 * accountant._rdp)
