"""Truncated Poisson draws against the exact mixtures of small data sets, all draws enumerated."""

import itertools
import math
import warnings
from collections import defaultdict

import numpy as np
import pytest

from lipdp.errors import InvalidValue
from lipdp.privacy import (
    Draw,
    Phase,
    TruncatedPoissonSampler,
    account,
    calibrate,
    epsilon,
    epsilon_of,
    truncation_price,
)
from tests.privacy.conftest import needs_truncation

pytestmark = needs_truncation


def _sums(rows, rate, most):
    """Sum of the rows drawn, and its probability; of a large draw a random part is kept."""
    found = defaultdict(float)
    for taken in itertools.product((False, True), repeat=len(rows)):
        chance = math.prod(rate if one else 1 - rate for one in taken)
        drawn = [row for row, one in zip(rows, taken, strict=True) if one]
        parts = list(itertools.combinations(drawn, min(most, len(drawn))))
        for part in parts:
            found[round(sum(part), 9)] += chance / len(parts)
    return dict(found)


def _neighbours(count, adjacency):
    """Pairs of data sets, one of count rows, with rows as far apart as their bound 1 allows."""
    for other in (-1.0, 0.0, 1.0):
        rest = [other] * (count - 1)
        if adjacency == "add-remove":
            yield [*rest, 1.0], rest
            yield [*rest, other, 1.0], [*rest, other]
        elif adjacency == "zero-out":
            yield [*rest, 1.0], [*rest, 0.0]
        else:
            yield [*rest, 1.0], [*rest, -1.0]


def _phase(count, rate, most, noise, steps=1):
    return Phase(rate, noise, steps, Draw("truncated-poisson", count, most))


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace-one"])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("count", [2, 4, 5])
def test_one_step_costs_no_less_than_the_enumeration(excess_of_gaussians, count, most, adjacency):
    for rate, noise, delta in [(0.3, 1.0, 1e-3), (0.6, 0.6, 1e-2), (0.9, 2.0, 1e-5)]:
        phase, coarse = _phase(count, rate, most, noise), (count, most) != (5, 2)
        claimed = account([phase], delta, adjacency=adjacency, coarse=coarse).epsilon
        for rows, others in _neighbours(count, adjacency):
            first, second = _sums(rows, rate, most), _sums(others, rate, most)
            for one, other in ((first, second), (second, first)):
                # The sum over a grid is good to 1e-6.
                assert excess_of_gaussians(one, other, noise, claimed) <= delta * (1 + 1e-6)


def test_the_enumeration_catches_poisson_accounting(excess_of_gaussians):
    """The test above could fail: without the price of truncation the claim is too small."""
    claimed = epsilon(0.6, 1.0, 1, 1e-3)
    first, second = _sums([-1.0] * 4 + [1.0], 0.6, 1), _sums([-1.0] * 4, 0.6, 1)
    assert excess_of_gaussians(first, second, 1.0, claimed) > 2e-3


def _excess_of_two_steps(first, second, noise, epsilon):
    x = np.linspace(-3 - 8 * noise, 3 + 8 * noise, 1501)

    def density(mixture):
        parts = [w * np.exp(-0.5 * ((x - c) / noise) ** 2) for c, w in mixture.items()]
        one = np.sum(parts, axis=0) / (noise * math.sqrt(2 * math.pi))
        return np.outer(one, one)

    gap = np.maximum(0.0, density(first) - math.exp(epsilon) * density(second))
    return gap.sum() * (x[1] - x[0]) ** 2


@pytest.mark.parametrize(("count", "rate", "most"), [(3, 0.5, 1), (4, 0.6, 2), (5, 0.9, 1)])
def test_two_steps_cost_no_less_than_the_enumeration(count, rate, most):
    claimed = account([_phase(count, rate, most, 1.0, steps=2)], 1e-3, coarse=True).epsilon
    for rows, others in _neighbours(count, "add-remove"):
        first, second = _sums(rows, rate, most), _sums(others, rate, most)
        for one, other in ((first, second), (second, first)):
            assert _excess_of_two_steps(one, other, 1.0, claimed) <= 1e-3 * (1 + 1e-4)


def test_fewer_rows_may_cost_more():
    """A row added to 5 rows costs more than one added to 6, where at most one row is kept."""
    from dp_accounting.pld import privacy_loss_distribution as library

    def one_side(rows):
        found = library.from_truncated_subsampled_gaussian_mechanism(
            rows, 0.5, 1, 1.0, value_discretization_interval=1e-3
        )
        return found.self_compose(10).get_epsilon_for_delta(1e-5)

    assert one_side(6) > one_side(7) + 1.0
    phase = _phase(6, 0.5, 1, 1.0, steps=10)
    assert epsilon_of([phase], 1e-5) >= max(one_side(6), one_side(7)) - 1e-3
    # A row that is emptied or replaced leaves the number of rows as it is.
    assert epsilon_of([phase], 1e-5, adjacency="zero-out") <= one_side(6) + 1e-3


def test_rare_truncation_costs_little_and_no_truncation_nothing():
    poisson = epsilon(0.01, 1.0, 1000, 1e-5)
    rare = epsilon_of([_phase(10000, 0.01, 160, 1.0, 1000)], 1e-5)
    assert poisson <= rare <= poisson + 0.01
    never = epsilon_of([_phase(100, 0.01, 101, 1.0, 1000)], 1e-5)
    assert poisson <= never <= poisson + 0.002


def test_more_slots_cost_less():
    found = [epsilon_of([_phase(1000, 0.1, most, 2.0, 100)], 1e-5) for most in (105, 140)]
    assert found[0] > found[1] >= epsilon(0.1, 2.0, 100, 1e-5)


def test_renyi_divergences_have_no_bound_for_it():
    found = account([_phase(1000, 0.1, 130, 2.0, 100)], 1e-5, accountant="rdp")
    assert found.method == "closed form of the Gaussian mechanism, without amplification"
    assert found.epsilon > epsilon_of([_phase(1000, 0.1, 130, 2.0, 100)], 1e-5)


def test_noise_is_calibrated():
    noise = calibrate(lambda z: [_phase(1000, 0.1, 130, z, 100)], 2.0, 1e-5)
    assert 1.98 <= epsilon_of([_phase(1000, 0.1, 130, noise, 100)], 1e-5) <= 2.0


def test_all_rows_cannot_be_truncated():
    with pytest.raises(InvalidValue, match="below 1"):
        _phase(100, 1.0, 10, 1.0)


@pytest.mark.parametrize(("count", "size"), [(1000, 100), (60000, 250), (60000, 1000)])
@pytest.mark.parametrize("noise", [2.0, 4.0])
def test_the_default_costs_little_where_there_is_noise(count, size, noise):
    """Two standard deviations cost 16 to 25 % here."""
    phase = TruncatedPoissonSampler(count, size).phase(noise, 1000)
    assert 1.0 <= truncation_price([phase], 1e-5) <= 1.03


def test_the_price_is_told_where_there_is_little_noise():
    phase = TruncatedPoissonSampler(60000, 250).phase(1.0, 100)
    price = truncation_price([phase, Phase(0.1, 50.0, 3)], 1e-5)
    assert 2.0 <= price <= 3.5
    assert price <= truncation_price([phase], 1e-5) * (1 + 1e-6)
    assert truncation_price([Phase(0.1, 2.0, 3)], 1e-5) == 1.0
    assert truncation_price([], 1e-5) == 1.0


@pytest.mark.backend
def test_a_plan_warns_of_the_price():
    import keras

    from lipdp import PrivacyBudget, Sequential
    from lipdp.layers import BoundedInput, SpectralDense
    from lipdp.losses import MulticlassHinge

    def plan(noise):
        model = Sequential([BoundedInput((3,), radius=1.0), SpectralDense(2)])
        budget = PrivacyBudget(noise_multiplier=noise, delta=1e-5, sampling="truncated-poisson")
        model.compile(keras.optimizers.SGD(0.1), MulticlassHinge(), privacy=budget)
        x, y = np.zeros((4000, 3)), np.zeros(4000, "int64")
        model.fit(x, y, batch_size=40, verbose=0)

    with pytest.warns(UserWarning, match="times the epsilon of padded batches"):
        plan(0.7)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="With so little noise")
        plan(4.0)
