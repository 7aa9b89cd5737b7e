"""Noise on a grid under fit: exact, fresh, at the right scale."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.layers import AdaptiveCotangentClip, BoundedInput, SpectralDense
from lipdp.losses import MulticlassHinge

SECURE = lipdp.PrivacyBudget(noise_multiplier=2.0, delta=1e-5, secure_noise=True)


def pure_noise(dtype, epochs=2, budget=SECURE, size=200):
    """Changes of the weights in each epoch of one step, and the model."""
    dense = keras.layers.Dense(size, use_bias=False, kernel_initializer="zeros", dtype=dtype)
    model = lipdp.Sequential([BoundedInput((size,), radius=1.0, dtype=dtype), dense])
    model.compile(keras.optimizers.SGD(1.0), MulticlassHinge(margin=1.0), privacy=budget)
    seen = [np.zeros((size, size))]

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(keras.ops.convert_to_numpy(dense.kernel).astype("float64"))

    x = np.zeros((64, size))
    model.fit(
        x, np.zeros(64, "int64"), batch_size=64, epochs=epochs, verbose=0, callbacks=[Watch()]
    )
    return np.diff(np.stack(seen), axis=0), model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_is_on_the_grid_at_the_right_scale_and_fresh(dtype):
    changes, model = pure_noise(dtype)
    (grid,), (stddev,) = model.plan.shares.grids, model.plan.stddevs
    # The divisor 64 is a power of two: the released sum is the first change times 64, exactly.
    steps = changes[0] * -64 / grid.width
    assert np.array_equal(steps, np.round(steps)) and np.abs(steps).max() > 100
    assert changes[0].std() * 64 == pytest.approx(stddev, rel=5 / np.sqrt(2 * changes[0].size))
    assert changes[1].std() * 64 == pytest.approx(stddev, rel=5 / np.sqrt(2 * changes[0].size))
    correlation = np.corrcoef(changes[0].ravel(), changes[1].ravel())[0, 1]
    assert abs(correlation) < 5 / np.sqrt(changes[0].size)


def test_the_grid_is_inside_the_sensitivity():
    _, model = pure_noise("float64", epochs=1)
    plan = model.plan
    (bound,), (grid,) = plan.bounds.parameters, plan.shares.grids
    assert plan.sensitivities[0] >= bound + grid.width * 200
    assert (plan.sensitivities[0] / plan.stddevs[0]) ** 2 <= 1 / 2.0**2
    assert plan.sensitivities[0] <= 1.002 * bound


def test_a_schedule_scales_exact_noise_too():
    budget = lipdp.PrivacyBudget(
        noise_multiplier=2.0, delta=1e-5, secure_noise=True, noise_schedule=((1, 0.5),)
    )
    changes, _ = pure_noise("float64", budget=budget)
    ratio = changes[1].std() / changes[0].std()
    assert ratio == pytest.approx(0.5, rel=5 / np.sqrt(changes[0].size))


def test_noise_that_was_not_renewed_spoils_the_weights(make_model, rows, monkeypatch):
    """Using noise twice would publish the difference of two sums."""
    model = make_model(SECURE)
    brought = []
    original = lipdp.training.noise.NoiseState.load

    def once(self, draws, shapes):
        if not brought:
            original(self, draws, shapes)
        brought.append(1)

    monkeypatch.setattr(lipdp.training.noise.NoiseState, "load", once)
    model.fit(*rows, batch_size=40, verbose=0)
    assert len(brought) == 5
    assert all(np.isnan(w).all() for w in model.get_weights() if w.ndim == 2)


@pytest.mark.slow
def test_it_trains_like_the_plain_noise(make_model, rows):
    found, held_out = {}, tuple(part.copy() for part in rows)
    for secure in (False, True):
        budget = lipdp.PrivacyBudget(epsilon=8.0, secure_noise=secure)
        model = make_model(budget, optimizer=keras.optimizers.Adam(0.05), metrics=["accuracy"])
        history = model.fit(*rows, batch_size=50, epochs=10, validation_data=held_out, verbose=0)
        found[secure] = history.history["val_accuracy"][-1]
        assert ("cryptographic" in model.privacy_statement()) >= secure
        assert history.history["epsilon"][-1] <= 8.0
    assert found[True] > 0.75 and found[False] > 0.75


def test_what_it_cannot_do_is_refused(make_model, rows):
    with pytest.raises(InvalidValue, match="reproduced"):
        lipdp.PrivacyBudget(epsilon=1.0, secure_noise=True, seed=1)
    model = lipdp.Sequential(
        [BoundedInput((4,), radius=1.0), SpectralDense(2), AdaptiveCotangentClip(0.1)]
    )
    model.compile("sgd", MulticlassHinge(), privacy=SECURE)
    with pytest.raises(UnsafeSetting, match="fixed thresholds"):
        model.fit(*rows, batch_size=40, verbose=0)


@pytest.mark.parametrize("parts", [1, 3])
def test_without_noise_the_grid_is_not_used(make_model, rows, parts):
    budget = lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5, secure_noise=True)
    model = make_model(budget)
    model.fit(*rows, batch_size=200, micro_batch_size=201 // parts, verbose=0)
    assert model.plan.shares.grids == ()
    assert all(np.isfinite(w).all() for w in model.get_weights())


def test_a_schedule_beyond_what_whole_numbers_hold_is_refused(make_model, rows):
    """Noise that saturates is no Gaussian any more."""
    for factor in (16.0, 1e6):
        budget = lipdp.PrivacyBudget(
            noise_multiplier=2.0, delta=1e-5, secure_noise=True, noise_schedule=((0, factor),)
        )
        model = make_model(budget)
        if factor == 16.0:
            model.fit(*rows, batch_size=50, verbose=0)
            continue
        with pytest.raises(UnsafeSetting, match="at most 16"):
            model.fit(*rows, batch_size=50, verbose=0)
