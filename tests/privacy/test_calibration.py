import math
import time

import numpy as np
import pytest

from lipdp.errors import InvalidValue, UnknownName
from lipdp.privacy import Phase, calibrate_noise_multiplier, epsilon, epsilon_of, max_steps


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
    start = time.monotonic()
    _check(target, 1e-5, 256 / 60000, 14062)
    assert time.monotonic() - start < 10.0


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


@pytest.mark.slow
def test_random_targets_answer_quickly():
    generator = np.random.default_rng(3)
    for _ in range(40):
        target, delta = 10 ** generator.uniform(-2, 3), 10 ** generator.uniform(-10, -3)
        rate, steps = 10 ** generator.uniform(-4, 0), int(10 ** generator.uniform(0, 5))
        start = time.monotonic()
        _check(target, delta, rate, steps)
        assert time.monotonic() - start < 10.0, (target, delta, rate, steps)
