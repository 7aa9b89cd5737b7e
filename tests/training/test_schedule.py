"""Noise that follows a public schedule."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidValue
from lipdp.layers import BoundedInput
from lipdp.losses import MulticlassHinge
from lipdp.privacy.allocation import check_schedule, factor_at


def test_factors_hold_from_their_epoch_on():
    schedule = ((1, 2.0), (4, 0.5))
    assert [factor_at(schedule, e) for e in range(6)] == [1.0, 2.0, 2.0, 2.0, 0.5, 0.5]
    assert factor_at((), 3) == 1.0


@pytest.mark.parametrize(
    "schedule", [((0, 0.0),), ((0, -1.0),), ((3, 1.0), (2, 1.0)), ((0, float("nan")),), ((0.5, 1),)]
)
def test_impossible_schedules_are_refused(schedule):
    with pytest.raises(InvalidValue, match="schedule"):
        check_schedule(schedule)
    with pytest.raises(InvalidValue, match="schedule"):
        lipdp.PrivacyBudget(epsilon=1.0, noise_schedule=schedule)


def test_each_epoch_gets_its_noise():
    """90,000 entries: 5 sigma of the standard deviation are 1.2 %."""
    dense = keras.layers.Dense(300, use_bias=False, kernel_initializer="zeros", dtype="float64")
    model = lipdp.Sequential([BoundedInput((300,), radius=1.0, dtype="float64"), dense])
    budget = lipdp.PrivacyBudget(
        noise_multiplier=2.0, delta=1e-5, noise_schedule=((1, 0.5), (2, 3.0))
    )
    model.compile(keras.optimizers.SGD(1.0), MulticlassHinge(margin=1.0), privacy=budget)
    seen = [np.zeros((300, 300))]

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(keras.ops.convert_to_numpy(dense.kernel).copy())

    x = np.zeros((100, 300))
    model.fit(x, np.zeros(100, "int64"), batch_size=100, epochs=3, verbose=0, callbacks=[Watch()])
    for change, factor in zip(np.diff(np.stack(seen), axis=0), (1.0, 0.5, 3.0), strict=True):
        expected = factor * 2.0 * np.sqrt(2) / 100
        assert change.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * 90_000))
    assert [(p.noise_multiplier, p.steps) for p in model.ledger.phases] == [
        (1.0, 1),
        (2.0, 1),
        (6.0, 1),
    ]


def test_a_calibrated_schedule_uses_the_budget(make_model, rows):
    budget = lipdp.PrivacyBudget(epsilon=4.0, noise_schedule=((2, 0.6),))
    model = make_model(budget)
    history = model.fit(*rows, batch_size=40, epochs=4, verbose=0).history
    assert 3.96 <= history["epsilon"][-1] <= 4.0
    quiet, loud = sorted(p.noise_multiplier for p in model.ledger.phases)
    assert quiet == pytest.approx(0.6 * loud)
    assert f"{loud:.6g} (10 steps), {quiet:.6g} (10 steps)" in model.privacy_statement()


def test_mixed_steps_cost_what_was_published(make_model, rows):
    """500 of (0.01, 1) then 500 of (0.01, 2) by one schedule: as two fits would."""
    x, y = rows[0][:100], rows[1][:100]
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, noise_schedule=((5, 2.0),))
    model = make_model(budget)
    model.fit(x, y, batch_size=1, epochs=10, verbose=0)
    phases = [lipdp.privacy.Phase(0.01, 1.0, 500), lipdp.privacy.Phase(0.01, 2.0, 500)]
    assert model.ledger.phases == tuple(phases)
    # The overflow of padded batches takes a thousandth of delta.
    assert model.ledger.epsilon(1e-5) == pytest.approx(
        lipdp.privacy.epsilon_of(phases, 1e-5), rel=1e-3
    )


def test_a_budget_stops_inside_a_schedule(make_model, rows):
    budget = lipdp.PrivacyBudget(
        epsilon=3.0, noise_multiplier=4.0, delta=1e-5, noise_schedule=((2, 0.5),)
    )
    model = make_model(budget)
    model.fit(*rows, batch_size=40, epochs=20, verbose=0)
    assert 10 < model.ledger.steps < 100
    assert 2.9 < model.ledger.epsilon(1e-5) <= 3.0
    over = [*model.ledger.phases, lipdp.privacy.Phase(0.2, 2.0, 1)]
    assert lipdp.privacy.epsilon_of(over, 0.998e-5) > 3.0
