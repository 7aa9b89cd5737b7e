"""What a row replaced, emptied, added or removed costs under each way of drawing rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.privacy import (
    ADJACENCIES,
    SAMPLERS,
    Draw,
    Phase,
    ShuffledSampler,
    account,
    epsilon,
    epsilon_of,
)
from lipdp.privacy.gaussian import gaussian_epsilon
from lipdp.privacy.pld import offers_truncation

SETTINGS = [
    (0.01, 1.0, 1000, 1e-5),
    (0.1, 2.0, 100, 1e-6),
    (0.5, 4.0, 30, 1e-5),
    (0.9, 10.0, 60, 1e-3),
    (0.03, 0.7, 20, 1e-7),
    (1.0, 2.0, 1, 1e-5),
]


def _fixed(count, size, noise, steps):
    return Phase(size / count, noise, steps, Draw("fixed-size", count, size))


def test_the_independent_composition_is_right(composed):
    assert composed([(0.01, 1.0, 1000)], 1e-5, replaced=True) == pytest.approx(2.8434, abs=1e-4)
    halved = composed([(1.0, 1.0, 1)], 1e-5)
    assert composed([(1.0, 2.0, 1)], 1e-5, replaced=True) == pytest.approx(halved, abs=1e-4)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_replace_one_is_never_below_the_true_value(composed, setting, accountant):
    rate, noise, steps, delta = setting
    true = composed([(rate, noise, steps)], delta, replaced=True)
    found = epsilon(*setting, accountant=accountant, adjacency="replace-one")
    assert found >= true - 1e-4
    assert epsilon(*setting, adjacency="zero-out") == epsilon(*setting)


@pytest.mark.parametrize("setting", SETTINGS)
def test_replace_one_is_the_true_value(composed, setting):
    rate, noise, steps, delta = setting
    true = composed([(rate, noise, steps)], delta, replaced=True)
    found = account([Phase(rate, noise, steps)], delta, adjacency="replace-one")
    assert found.epsilon <= true + 0.002
    halved = epsilon(rate, noise / 2.0, steps, delta)
    assert found.epsilon <= halved


@pytest.mark.skipif(offers_truncation(), reason="this dp-accounting knows truncated draws")
def test_older_releases_refuse_truncated_draws():
    with pytest.raises(InvalidValue, match=r"0\.6"):
        SAMPLERS["truncated-poisson"](100, 10)


def test_mixed_phases_under_replace_one(composed):
    steps = [(0.01, 1.5, 300), (0.2, 5.0, 40), (1.0, 12.0, 1)]
    true = composed(steps, 1e-5, replaced=True)
    found = epsilon_of([Phase(*one) for one in steps], 1e-5, adjacency="replace-one")
    assert true - 1e-4 <= found <= true + 0.002


@given(
    angle=st.floats(0, math.pi),
    lengths=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    rate=st.floats(0.01, 1.0),
    noise=st.floats(0.5, 4.0),
    log_factor=st.floats(0, 3),
)
def test_opposite_rows_are_the_worst_pair(angle, lengths, rate, noise, log_factor):
    """Rows of any length and direction against the pair that is accounted, in one step."""
    x = np.linspace(-5 - 8 * noise, 5 + 8 * noise, 401)
    x, y = np.meshgrid(x, x)

    def divergence(u, v):
        def density(a, b):
            return np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * noise**2))

        first = (1 - rate) * density(0, 0) + rate * density(*u)
        second = (1 - rate) * density(0, 0) + rate * density(*v)
        return np.maximum(0, first - math.exp(log_factor) * second).sum() / density(0, 0).sum()

    u = (lengths[0], 0.0)
    v = (lengths[1] * math.cos(angle), lengths[1] * math.sin(angle))
    worst = divergence((1, 0), (-1, 0))
    # The sum over the grid is good to 1e-4 of the value.
    assert divergence(u, v) <= worst * (1 + 1e-3) + 1e-9


@pytest.mark.parametrize(
    ("count", "size", "noise", "steps"),
    [(10000, 100, 1.0, 1000), (1000, 100, 2.0, 100), (100, 50, 8.0, 100), (60000, 250, 1.3, 3600)],
)
def test_fixed_size_is_never_below_what_a_real_sum_leaks(composed, count, size, noise, steps):
    """All other rows 0: a row and its opposite give the pair of Poisson sampling at q = b / N."""
    true = composed([(size / count, noise, steps)], 1e-5, replaced=True)
    for accountant in ("pld", "rdp"):
        found = epsilon_of(
            [_fixed(count, size, noise, steps)],
            1e-5,
            accountant=accountant,
            adjacency="replace-one",
        )
        assert true - 1e-4 <= found <= gaussian_epsilon(2.0 * math.sqrt(steps) / noise, 1e-5)


def test_fixed_size_with_much_noise_is_close():
    phase = _fixed(10000, 100, 4.0, 10000)
    # 1.9932 is what the pair of the test above costs; Theorem 27 of Wang et al. 2019 gives 5.14.
    assert 1.9932 <= epsilon_of([phase], 1e-5, adjacency="replace-one") <= 2.48


def test_a_fixed_size_of_all_rows_is_the_full_batch():
    found = epsilon_of([_fixed(50, 50, 2.0, 9)], 1e-5, adjacency="replace-one")
    assert found == epsilon(1.0, 2.0, 9, 1e-5, adjacency="replace-one")


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out"])
def test_fixed_size_is_refused_where_it_is_not_accounted(adjacency):
    with pytest.raises(InvalidValue, match="replace-one"):
        epsilon_of([Phase(0.01, 1.0, 5), _fixed(100, 10, 1.0, 5)], 1e-5, adjacency=adjacency)


def test_draws_compose_with_each_other():
    parts = [_fixed(1000, 10, 2.0, 200), Phase(0.02, 2.0, 100), Phase(1.0, 20.0, 1)]
    for accountant in ("pld", "rdp"):
        how = {"accountant": accountant, "adjacency": "replace-one"}
        whole = epsilon_of(parts, 1e-5, **how)
        assert max(epsilon_of([part], 1e-5, **how) for part in parts) < whole < math.inf


def test_a_shuffled_epoch_gains_nothing():
    """60,000 rows in batches of 250, 15 epochs at multiplier 1.3."""
    sampler = ShuffledSampler(60000, 250)
    shuffled = [sampler.phase(1.3, 15)]
    poisson = epsilon(250 / 60000, 1.3, 15 * sampler.steps_per_epoch, 1e-5)
    assert poisson == pytest.approx(0.8530, abs=0.001)
    found = epsilon_of(shuffled, 1e-5, adjacency="zero-out")
    assert found == pytest.approx(16.5262, abs=1e-4)
    assert found == pytest.approx(gaussian_epsilon(math.sqrt(15) / 1.3, 1e-5))
    replaced = epsilon_of(shuffled, 1e-5, adjacency="replace-one")
    assert replaced == pytest.approx(gaussian_epsilon(2 * math.sqrt(15) / 1.3, 1e-5))


def test_the_full_batch_is_the_closed_form():
    phase = SAMPLERS["full-batch"](50, 50).phase(2.0, 4)
    for adjacency, change in ADJACENCIES.items():
        found = account([phase], 1e-5, adjacency=adjacency)
        assert found.method == "closed form of the Gaussian mechanism"
        assert found.epsilon == pytest.approx(gaussian_epsilon(change, 1e-5))
