import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lipdp.errors import InvalidValue, UnknownName
from lipdp.privacy import (
    ACCOUNTANTS,
    Phase,
    account,
    effective_multiplier,
    epsilon,
    epsilon_curve,
    epsilon_of,
)

# Values on which an independent composition, closed forms and two releases of dp-accounting agree.
REFERENCES = [
    ((1.0, 1.0, 1), 4.3772, 4.7285),
    ((256 / 60000, 1.1, 14062), 2.3817, 2.597),
    ((0.01, 1.0, 1000), 1.8282, 2.1014),
    ((0.01, 4.0, 10000), 0.9470, 1.0355),
    ((0.1, 2.0, 100), 2.3374, 2.5806),
    ((0.2, 1.0, 10), 4.9842, 5.755),
    ((250 / 60000, 1.3, 3600), 0.8530, 0.95),
    ((1.0, 1.3 / math.sqrt(15), 1), 16.5260, 18.0),
    ((0.064, 1.2, 150), 3.8376, 4.5),
    ((0.064, 1.2, 156), 3.9112, 4.5),
    ((0.064, 1.2, 160), 3.9597, 4.5),
    ((0.01, 1.0, 500), 1.3261, 1.7),
]


@pytest.mark.parametrize(("setting", "true", "renyi"), REFERENCES)
def test_reference_values(setting, true, renyi):
    value = epsilon(*setting, 1e-5)
    assert true - 1e-4 <= value <= true + 0.01
    assert value <= epsilon(*setting, 1e-5, accountant="rdp") <= renyi + 0.005


@pytest.mark.parametrize(
    ("phases", "delta"),
    [
        ([(0.03, 0.8, 50)], 1e-5),
        ([(0.5, 2.0, 30)], 1e-6),
        ([(0.002, 0.6, 3000)], 1e-7),
        ([(0.9, 5.0, 100)], 1e-4),
        ([(0.05, 10.0, 2000)], 1e-3),
        ([(0.01, 1.0, 300), (0.02, 2.0, 400), (0.3, 9.0, 7)], 1e-5),
        ([(0.01, 1.0, 500), (1.0, 5.0, 1)], 1e-5),
    ],
)
def test_agrees_with_an_independent_composition(composed, phases, delta):
    true = composed(phases, delta)
    value = epsilon_of([Phase(*phase) for phase in phases], delta)
    assert true - 1e-4 <= value <= true + 0.01


def test_the_independent_composition_is_right(composed):
    assert composed([(0.01, 1.0, 1000)], 1e-5) == pytest.approx(1.8282, abs=1e-4)
    assert composed([(0.01, 1.0, 500)], 1e-5) < 1.8


def test_mixed_steps_compose():
    mixed = epsilon_of([Phase(0.01, 1, 500), Phase(0.02, 2, 500)], 1e-5)
    assert 1.6150 <= mixed <= 1.6251
    with_full_batch = epsilon_of([Phase(0.01, 1, 500), Phase(1, 5, 1)], 1e-5)
    assert 1.5228 <= with_full_batch <= 1.5329


def test_ten_runs_cost_what_their_composition_costs():
    runs = [Phase(0.01, 1.0, 1000)] * 10
    assert 6.1876 <= epsilon_of(runs, 1e-5) <= 6.1977


def test_the_order_of_the_steps_is_free():
    phases = [Phase(0.01, 1, 5), Phase(0.02, 2, 3), Phase(0.01, 1, 4), Phase(0.5, 1, 0)]
    assert epsilon_of(phases, 1e-5) == epsilon_of(phases[::-1], 1e-5)


def test_variables_noised_apart_cost_what_they_cost_together():
    multiplier = effective_multiplier([2.0] * 4)
    assert 4.3771 <= epsilon(1.0, multiplier, 1, 1e-5) <= 4.3872
    assert 1.8281 <= epsilon(0.01, multiplier, 1000, 1e-5) <= 1.8382


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
class TestEdges:
    def test_no_steps_cost_nothing(self, accountant):
        assert epsilon(0.5, 1.0, 0, 1e-5, accountant=accountant) == 0.0
        assert epsilon(0.5, 0.0, 0, 1e-5, accountant=accountant) == 0.0
        assert epsilon_of([], 1e-5, accountant=accountant) == 0.0

    def test_no_noise_costs_infinity(self, accountant):
        assert epsilon(0.5, 0.0, 1, 1e-5, accountant=accountant) == math.inf
        assert epsilon_of([Phase(0.1, 1, 9), Phase(0.1, 0, 1)], 1e-5) == math.inf

    def test_a_large_delta_costs_exactly_nothing(self, accountant):
        assert epsilon(1.0, 10.0, 1, 0.5, accountant=accountant) == 0.0

    @pytest.mark.parametrize("noise", [1e-300, 1e-9, 1e-3, 1e-2, 1e5, 1e300])
    @pytest.mark.parametrize("rate", [1e-9, 0.5, 1.0])
    @pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
    def test_extreme_noise_gives_a_number(self, accountant, noise, rate, adjacency):
        how = {"accountant": accountant, "adjacency": adjacency}
        assert epsilon(rate, noise, 10, 1e-5, **how) >= 0.0

    @pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
    def test_extreme_noise_beside_other_steps(self, accountant, adjacency):
        how = {"accountant": accountant, "adjacency": adjacency}
        alone = epsilon_of([Phase(0.1, 2.0, 10)], 1e-5, **how)
        for noise in (1e9, 1e300):
            both = epsilon_of([Phase(0.1, 2.0, 10), Phase(0.3, noise, 5)], 1e-5, **how)
            assert alone * (1 - 1e-6) <= both <= alone * 1.01

    def test_the_most_steps_give_a_number(self, accountant):
        for noise in (1.0, 1e5, 1e10):
            assert epsilon(0.01, noise, 2**53, 1e-5, accountant=accountant) > 0.0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-5}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"sampling_rate": 1.1}, "sampling rate"),
        ({"sampling_rate": 0.0}, "sampling rate"),
        ({"sampling_rate": math.nan}, "sampling rate"),
        ({"sampling_rate": "0.1"}, "sampling rate"),
        ({"noise_multiplier": -1.0}, "noise multiplier"),
        ({"noise_multiplier": math.inf}, "noise multiplier"),
        ({"noise_multiplier": None}, "noise multiplier"),
        ({"steps": -1}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"steps": True}, "steps"),
        ({"steps": math.inf}, "steps"),
        ({"steps": 2**53 + 1}, "steps"),
        ({"steps": 10**400}, "steps"),
        ({"noise_multiplier": 10**400}, "noise multiplier"),
    ],
)
def test_values_outside_their_domain_are_refused_by_name(change, word):
    arguments = {"sampling_rate": 0.1, "noise_multiplier": 1.0, "steps": 1, "delta": 1e-5}
    with pytest.raises(InvalidValue, match=word):
        epsilon(**{**arguments, **change})


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName, match="pld"):
        epsilon(0.1, 1.0, 1, 1e-5, accountant="prv")
    with pytest.raises(UnknownName, match="replace-one"):
        epsilon(0.1, 1.0, 1, 1e-5, adjacency="swap")


def test_the_computation_is_named():
    assert account([Phase(0.01, 1, 1000)], 1e-5).method == ACCOUNTANTS["pld"].title
    assert account([Phase(0.01, 1, 1000)], 1e-5, accountant="rdp").method == "Renyi divergences"
    # A million roundings of 1e-16 are not small against 1e-12.
    assert account([Phase(1e-4, 1, 10**6)], 1e-12).method == "Renyi divergences"


def test_the_curve_is_the_single_values():
    curve = epsilon_curve(0.01, 1.0, [0, 500, 1000], 1e-5)
    assert curve == [epsilon(0.01, 1.0, steps, 1e-5) for steps in (0, 500, 1000)]


def test_tiny_divergences_are_not_rounded_to_nothing():
    """One step's divergence is 1e-14 here, and some releases compute it as 0 or less."""
    steps, rate, noise = 10**6, 1e-5, 100.0
    true = rate * math.sqrt(steps * math.expm1(1 / noise**2))  # mu of the central limit, 1e-4
    for accountant in ACCOUNTANTS:
        assert epsilon(rate, noise, steps, 1e-9, accountant=accountant) > true


def test_coarse_values_are_upper_bounds():
    for setting in [(0.01, 1.0, 1000), (0.3, 2.0, 20), (1e-3, 10.0, 10**5)]:
        fine = account([Phase(*setting)], 1e-5).epsilon
        assert account([Phase(*setting)], 1e-5, coarse=True).epsilon >= fine


@settings(max_examples=6)
@given(
    log_rate=st.floats(-4, 0),
    log_noise=st.floats(-0.5, 1.5),
    log_steps=st.floats(0, 5),
    log_delta=st.floats(-9, -2),
)
@example(log_rate=-2.0, log_noise=0.0, log_steps=3.0, log_delta=-5.0)
@pytest.mark.slow
def test_monotone_in_everything(log_rate, log_noise, log_steps, log_delta):
    rate, noise, delta = 10**log_rate, 10**log_noise, 10**log_delta
    steps = int(10**log_steps)
    value = epsilon(rate, noise, steps, delta)
    assert 0.0 <= value < math.inf
    assert epsilon(rate, noise, steps + 1, delta) >= value
    assert epsilon(rate, noise, 2 * steps, delta) >= value
    assert epsilon(rate, noise * 1.02, steps, delta) <= value
    assert epsilon(rate, noise, steps, delta * 0.9) >= value
    assert epsilon(min(1.0, rate * 1.02), noise, steps, delta) >= value


@pytest.mark.slow
def test_random_settings_agree_with_an_independent_composition(composed):
    generator = np.random.default_rng(11)
    checked = 0
    while checked < 25:
        rate, noise = 10 ** generator.uniform(-3, 0), 10 ** generator.uniform(-0.2, 1)
        steps, delta = int(10 ** generator.uniform(0, 4)), 10 ** generator.uniform(-8, -3)
        value = epsilon(rate, noise, steps, delta)
        if 0.1 < value < 10.0:
            # Nearest-point rounding adds steps * grid^2 / 12 to the variance of the loss.
            true = composed([(rate, noise, steps)], delta, grid=2e-5 if value < 1.0 else 1e-4)
            assert true - 1e-4 <= value <= 1.002 * true + 0.01, (rate, noise, steps, delta)
            checked += 1
