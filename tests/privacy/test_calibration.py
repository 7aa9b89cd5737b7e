import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue, UnknownName
from lipdp.privacy import (
    Draw,
    Phase,
    calibrate,
    calibrate_noise_multiplier,
    calibration,
    epsilon,
    epsilon_of,
    first_steps,
    max_steps,
)


def _check(target, delta, rate, steps, **options):
    noise = calibrate_noise_multiplier(target, delta, rate, steps, **options)
    found = epsilon(rate, noise, steps, delta, **options)
    assert 0.99 * target <= found <= target
    return noise


def test_reference_multipliers():
    assert _check(1.0, 1e-5, 256 / 60000, 14062) == pytest.approx(2.0252, rel=1e-3)
    assert _check(8.0, 1e-5, 512 / 60000, 2340) == pytest.approx(0.6263, rel=1e-3)
    # 15.762 by the library's default grid of 1e-4, which is coarse against epsilon 0.1.
    assert 15.5 <= _check(0.1, 1e-5, 256 / 60000, 14062) <= 15.762
    assert _check(4.0, 2e-5, 1024 / 14732, 42) == pytest.approx(0.9010, rel=1e-3)


@pytest.mark.parametrize("target", [0.01, 1000.0])
def test_extreme_targets_answer(target):
    start = time.process_time()
    _check(target, 1e-5, 256 / 60000, 14062)
    assert time.process_time() - start < 10.0


@pytest.mark.parametrize("options", [{"accountant": "rdp"}, {"adjacency": "replace-one"}])
def test_options(options):
    noise = _check(2.0, 1e-6, 0.02, 500, **options)
    assert noise > calibrate_noise_multiplier(2.0, 1e-6, 0.02, 500)


def test_full_batch_and_no_steps():
    assert _check(4.3772, 1e-5, 1.0, 1) == pytest.approx(1.0, rel=1e-3)
    assert calibrate_noise_multiplier(1.0, 1e-5, 0.1, 0) == 0.0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((0.0, 1e-5, 0.1, 10), "epsilon"),
        ((math.inf, 1e-5, 0.1, 10), "epsilon"),
        ((1.0, 0.0, 0.1, 10), "delta"),
        ((1.0, 1e-5, 1.5, 10), "sampling rate"),
        ((1.0, 1e-5, 0.1, -1), "steps"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, word):
    with pytest.raises(InvalidValue, match=word):
        calibrate_noise_multiplier(*arguments)


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName):
        calibrate_noise_multiplier(1.0, 1e-5, 0.1, 10, accountant="moments")
    with pytest.raises(UnknownName):
        calibrate_noise_multiplier(1.0, 1e-5, 0.1, 10, adjacency="other")


def test_a_budget_for_500_steps_stops_at_500():
    assert max_steps([], [Phase(0.01, 1.0, 1000)], 1.3261, 1e-5) == 500
    assert max_steps([], [Phase(0.01, 1.0, 500)], 1.3261, 1e-5) == 500
    assert max_steps([], [Phase(0.01, 1.0, 100)], 1.3261, 1e-5) == 100
    assert max_steps([Phase(0.01, 1.0, 300)], [Phase(0.01, 1.0, 1000)], 1.3261, 1e-5) == 200


def test_the_most_steps_are_the_most():
    spent = [Phase(0.02, 2.0, 100)]
    found = max_steps(spent, [Phase(0.05, 3.0, 10**5)], 2.0, 1e-6)
    assert epsilon_of([*spent, Phase(0.05, 3.0, found)], 1e-6) <= 2.0
    assert epsilon_of([*spent, Phase(0.05, 3.0, found + 1)], 1e-6) > 2.0


def test_nothing_is_left():
    assert max_steps([Phase(0.01, 1.0, 1000)], [Phase(0.01, 1.0, 10)], 1.3261, 1e-5) == 0
    assert max_steps([], [Phase(0.01, 0.0, 10)], 1.0, 1e-5) == 0
    assert max_steps([], [Phase(1.0, 0.1, 10)], 1.0, 1e-5) == 0
    assert max_steps([], [Phase(0.01, 1.0, 0)], 1.0, 1e-5) == 0


def test_a_calibrated_run_is_affordable_to_its_last_step():
    noise = calibrate_noise_multiplier(3.0, 1e-5, 0.01, 700)
    assert max_steps([], [Phase(0.01, noise, 700)], 3.0, 1e-5) == 700


_SPENT = [
    pytest.param([], id="nothing", marks=pytest.mark.slow),
    pytest.param([Phase(0.01, 2.0, 100)], id="little", marks=pytest.mark.slow),
    pytest.param([Phase(0.02, 1.0, 500)], id="half", marks=pytest.mark.slow),
    pytest.param([Phase(1.0, 6.0, 1)], id="a private mean", marks=pytest.mark.slow),
    pytest.param([Phase(0.01, 1.0, 2350)], id="much"),
]


@pytest.mark.parametrize("spent", _SPENT)
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_noise_is_found_on_top_of_what_was_spent(spent, accountant):
    how = {"accountant": accountant}
    before = epsilon_of(spent, 1e-5, **how)
    target = 3.0 if before < 2.9 else before / 0.99
    noise = calibrate(lambda z: [Phase(0.02, z, 400)], target, 1e-5, spent=spent, **how)
    found = epsilon_of([*spent, Phase(0.02, noise, 400)], 1e-5, **how)
    assert 0.99 * target <= found <= target
    assert noise >= 0.999 * calibrate_noise_multiplier(target, 1e-5, 0.02, 400, **how)


def test_noise_is_found_for_phases_of_changing_noise():
    def ahead(noise):
        return [Phase(0.02, noise, 200), Phase(0.02, 0.8 * noise, 100), Phase(1.0, 20 * noise, 1)]

    spent = [Phase(0.02, 4.0, 100)]
    noise = calibrate(ahead, 2.0, 1e-6, spent=spent, adjacency="replace-one")
    found = epsilon_of([*spent, *ahead(noise)], 1e-6, adjacency="replace-one")
    assert 1.98 <= found <= 2.0


def test_noise_is_found_for_draws_of_a_fixed_size():
    def ahead(noise):
        return [Phase(0.01, noise, 500, Draw("fixed-size", 10000, 100))]

    noise = calibrate(ahead, 1.0, 1e-5, adjacency="replace-one")
    assert 0.99 <= epsilon_of(ahead(noise), 1e-5, adjacency="replace-one") <= 1.0
    with pytest.raises(InvalidValue, match="replace-one"):
        calibrate(ahead, 1.0, 1e-5)


def test_nothing_is_left_for_further_steps():
    spent = [Phase(0.01, 1.0, 1000)]
    for epsilon_ in (1.0, 1.8284):
        with pytest.raises(InvalidValue, match="leave nothing"):
            calibrate(lambda z: [Phase(0.01, z, 10)], epsilon_, 1e-5, spent=spent)
        with pytest.raises(InvalidValue, match="leave nothing"):
            calibrate(lambda z: [], epsilon_, 1e-5, spent=spent)
    with pytest.raises(InvalidValue, match="leave nothing"):
        calibrate(lambda z: [Phase(0.01, z, 10)], 5.0, 1e-5, spent=[Phase(0.01, 0.0, 1)])
    assert calibrate(lambda z: [], 5.0, 1e-5, spent=spent) == 0.0


def test_steps_that_only_the_looser_accountant_can_compose_are_refused_in_time():
    """A million steps ahead leave no delta for rounding; by Renyi divergences nothing is left."""
    spent, delta = [Phase(0.01, 1.0, 1000)], 1e-9
    target = epsilon_of(spent, delta) * 1.02
    assert epsilon_of(spent, delta, accountant="rdp") > target
    with pytest.raises(InvalidValue, match="leave nothing"):
        calibrate(lambda z: [Phase(0.001, z, 10**6)], target, delta, spent=spent)


def test_the_most_steps_over_several_phases():
    spent = [Phase(1.0, 10.0, 1)]
    ahead = [Phase(0.02, 2.0, 300), Phase(0.05, 3.0, 200), Phase(0.02, 1.0, 5000)]
    for budget in (0.8, 1.25, 1.5, 3.0):
        steps = max_steps(spent, ahead, budget, 1e-6)
        taken = first_steps(ahead, steps)
        assert sum(phase.steps for phase in taken) == steps
        assert epsilon_of([*spent, *taken], 1e-6) <= budget
        assert epsilon_of([*spent, *first_steps(ahead, steps + 1)], 1e-6) > budget
    found = [max_steps(spent, ahead, budget, 1e-6) for budget in (0.8, 1.25, 1.5, 3.0)]
    assert 0 < found[0] < 300 <= found[1] < 500 <= found[2] < found[3] < 5500
    assert max_steps(spent, ahead, 100.0, 1e-6) == 5500


def test_first_steps_keep_the_order():
    ahead = [Phase(0.1, 1.0, 3), Phase(0.2, 1.0, 4)]
    assert [phase.steps for phase in first_steps(ahead, 0)] == [0, 0]
    assert [phase.steps for phase in first_steps(ahead, 5)] == [3, 2]
    assert [phase.steps for phase in first_steps(ahead, 99)] == [3, 4]


@pytest.mark.slow
def test_random_targets_answer_quickly():
    generator = np.random.default_rng(3)
    for _ in range(40):
        target, delta = 10 ** generator.uniform(-2, 3), 10 ** generator.uniform(-10, -3)
        rate, steps = 10 ** generator.uniform(-4, 0), int(10 ** generator.uniform(0, 5))
        start = time.process_time()
        _check(target, delta, rate, steps)
        assert time.process_time() - start < 10.0, (target, delta, rate, steps)


@given(
    powers=st.tuples(st.floats(0.5, 8.0), st.floats(0.5, 8.0)),
    looser=st.floats(1.0, 10.0),
    target=st.floats(1e-3, 1e3),
    floor=st.floats(0.0, 0.99),
)
def test_the_last_cost_decides_whatever_a_looser_one_says(powers, looser, target, floor):
    asked = []

    def cost(noise):
        asked.append(noise)
        return target * (floor + (1.0 - floor) * noise ** -powers[1])

    def rough(noise):
        return looser * target * noise ** -powers[0]

    noise = calibration._least_noise([rough, cost], 5.0, target)
    assert 0.9993 * target <= cost(noise) <= target
    assert len(asked) < 40


def test_a_better_cost_is_asked_a_few_times_only():
    asked = []

    def cost(noise):
        asked.append(noise)
        return 0.8 * 3.0 * noise**-2.5

    noise = calibration._least_noise([lambda z: 3.0 * z**-2.0, cost], 5.0, 3.0)
    assert 0.9993 * 3.0 <= cost(noise) <= 3.0
    assert len(asked) <= 5
