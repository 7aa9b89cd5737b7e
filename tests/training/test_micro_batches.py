"""A large batch in parts: the same step, one noise, one accounted access, bounded memory."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.layers import BoundedInput
from lipdp.losses import MulticlassHinge
from lipdp.privacy import PoissonSampler
from lipdp.training.batches import PrivateBatches, Slots
from lipdp.training.data import single_rows

# Shuffled batches follow from the seed, however often Keras reads one to learn its shape.
SEEDED = lipdp.PrivacyBudget(
    noise_multiplier=0.0, delta=1e-5, seed=3, sampling="shuffled", adjacency="zero-out"
)


def batches(parts, capacity=24, seed=5):
    n = 60
    slots = Slots(units=capacity, micro_batches=parts, rows=capacity // parts)
    x = np.arange(n, dtype="float32")[:, None]
    sampler = PoissonSampler(n, 12, seed=seed)
    return PrivateBatches(x, np.arange(n), single_rows(n), sampler, slots=slots, seed=seed)


def test_the_parts_of_a_step_are_one_draw():
    whole, split = batches(1), batches(4)
    for step in range(whole.micro_batches_per_epoch):
        parts = [split[4 * step + part] for part in range(4)]
        for joined, expected in zip(zip(*parts, strict=True), whole[step], strict=True):
            assert np.array_equal(np.concatenate(joined), expected)
        assert all(len(part[1]) == 6 for part in parts)


def test_each_step_draws_anew_and_holds_a_row_once():
    data = batches(4, seed=None)
    draws = []
    for step in range(40):
        index = 4 * (step % (data.micro_batches_per_epoch // 4))
        parts = [data[index + part] for part in range(4)]
        ids = np.concatenate([y[mask > 0] for _, y, mask in parts])
        assert len(set(ids)) == len(ids)
        draws.append(frozenset(ids.tolist()))
    assert len(set(draws)) > 30


def test_parts_out_of_order_are_refused():
    data = batches(4)
    data[0]
    with pytest.raises(lipdp.errors.InvalidState, match="out of order"):
        data[2]


@pytest.mark.parametrize(
    "optimizer",
    [keras.optimizers.SGD, pytest.param(keras.optimizers.Adam, marks=pytest.mark.slow)],
)
def test_weights_are_those_of_the_whole_batch(make_model, rows, optimizer):
    found = []
    for size in (None, 30, 20, 7):
        model = make_model(SEEDED, optimizer=optimizer(0.1), dtype="float64")
        history = model.fit(
            *rows, batch_size=60, epochs=2, micro_batch_size=size, verbose=0
        ).history
        if size is not None:
            assert model.plan.slots.rows <= size
        assert model.optimizer.iterations == 8 and model.ledger.steps == 2
        found.append((model.get_weights(), history["loss"]))
    for weights, loss in found[1:]:
        # Keras weighs the logged loss of a part by its slots, of which the last batch has fewer.
        np.testing.assert_allclose(loss, found[0][1], rtol=0.15)
        for a, b in zip(weights, found[0][0], strict=True):
            np.testing.assert_allclose(a, b, atol=2e-6)


def noise_of(parts, sigma=2.0, rate=100):
    dense = keras.layers.Dense(300, use_bias=False, kernel_initializer="zeros", dtype="float64")
    model = lipdp.Sequential([BoundedInput((300,), radius=1.0, dtype="float64"), dense])
    budget = lipdp.PrivacyBudget(noise_multiplier=sigma, delta=1e-5)
    model.compile(keras.optimizers.SGD(1.0), MulticlassHinge(margin=1.0), privacy=budget)
    x = np.zeros((rate, 300))
    size = -(-(rate + 1) // parts)
    model.fit(x, np.zeros(rate, "int64"), batch_size=rate, micro_batch_size=size, verbose=0)
    assert model.plan.slots.micro_batches == parts
    return keras.ops.convert_to_numpy(dense.kernel)


@pytest.mark.parametrize("parts", [1, 4, 8])
def test_noise_is_added_once(parts):
    """sigma sqrt(2) / 100; noise in every part would be sqrt(parts) as large. 5 sigma of 90,000."""
    change = noise_of(parts)
    expected = 2.0 * np.sqrt(2) / 100
    assert change.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * 90_000))
    assert abs(change.mean()) <= 5 * expected / 300


def test_a_fit_that_was_stopped_within_a_batch_leaves_no_sum(make_model, rows):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 2:
                raise RuntimeError("stopped")

    model = make_model(lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5))
    with pytest.raises(RuntimeError, match="stopped"):
        model.fit(*rows, batch_size=60, micro_batch_size=20, verbose=0, callbacks=[Stop()])
    assert any(np.abs(np.asarray(total)).max() > 0 for total in model.optimizer._sums)
    assert model.ledger.steps == 1
    model.fit(*rows[:2], batch_size=200, micro_batch_size=100, epochs=1, verbose=0)
    assert all(np.abs(np.asarray(total)).max() == 0 for total in model.optimizer._sums)
    assert model.ledger.steps == 2


@pytest.mark.parametrize("physical", [(256, 4), (64, 16), (1024, 1)])
def test_calibration_does_not_see_the_parts(physical):
    """N = 14732, effective batch 1024, 42 updates, epsilon 4, delta 2e-5: sigma 0.9010."""
    size, parts = physical
    found = lipdp.privacy.calibrate_noise_multiplier(4.0, 2e-5, size * parts / 14732, 42)
    assert found == pytest.approx(0.9010, abs=0.001)


def test_accumulated_batches_cost_what_was_published(make_model, rows):
    """N = 1000, 8 parts of 10 rows, 100 updates, sigma 1: 5.6134."""
    x, y = np.tile(rows[0], (5, 1)), np.tile(rows[1], 5)
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(x, y, batch_size=80, micro_batch_size=20, epochs=8, verbose=0)
    assert model.ledger.steps == 8 * 13
    (phase,) = model.ledger.phases
    assert phase.sampling_rate == 0.08
    value = lipdp.privacy.epsilon(0.08, 1.0, 100, 1e-5)
    assert 5.6133 <= value <= 5.6234
