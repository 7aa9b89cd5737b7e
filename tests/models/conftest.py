"""What every architecture for images must keep, in one place."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.bounds import gradient_bounds, lipschitz_constant, numerical_error
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.losses import TemperedCrossentropy

LOSS = TemperedCrossentropy(4.0)


def hostile_rows(num_features, count=12):
    x = np.random.default_rng(0).normal(size=(count, num_features)).astype("float32")
    x[0], x[1], x[2, 0], x[3], x[4] = 0.0, 1e30, np.nan, 1.0, np.eye(num_features)[0]
    return x


def _check_bounds(layers, front):
    slope = lipschitz_constant(keras.Sequential(layers[:front]))
    model = keras.Sequential(layers)
    x = hostile_rows(model.input_shape[-1])
    logits = model.predict(x, verbose=0)
    assert logits.shape == (len(x), 3) and np.isfinite(logits).all()
    bounds = gradient_bounds(model, LOSS)
    assert len(bounds.parameters) == len(model.trainable_variables) > 0
    assert all(0 < bound < np.inf for bound in bounds.parameters)
    norms = per_sample_gradient_norms(model, LOSS, x[:6], np.arange(6) % 3, training=True)
    assert np.all(norms <= bounds.parameters) and np.all(norms[5] > 0)
    constant, error = lipschitz_constant(model), numerical_error(model)
    assert 0 < constant <= slope
    one, other = x[5:], x[5:] + np.random.default_rng(1).normal(scale=1e-2, size=x[5:].shape)
    logits = [model.predict(rows, verbose=0).astype("float64") for rows in (one, other)]
    gaps = np.linalg.norm(one - other.astype("float32"), axis=1)
    changes = np.linalg.norm(logits[0] - logits[1], axis=1)
    assert np.all(changes <= constant * gaps + 2 * error)


def _check_training(layers, tmp_path):
    model = lipdp.Sequential(layers)
    start = [keras.ops.convert_to_numpy(v) for v in model.trainable_variables]
    privacy = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-3, accountant="rdp")
    model.compile(keras.optimizers.SGD(0.1), LOSS, privacy=privacy)
    x = hostile_rows(model.input_shape[-1], count=40)
    model.fit(x, np.arange(40) % 3, batch_size=20, epochs=1, verbose=0)
    assert model.ledger.steps == 2
    trained = [keras.ops.convert_to_numpy(v) for v in model.trainable_variables]
    for before, now in zip(start, trained, strict=True):
        assert np.isfinite(now).all() and np.abs(now - before).max() > 0
    model.save(tmp_path / "model.keras")
    again = lipdp.load_model(tmp_path / "model.keras")
    assert again.ledger.steps == 2
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    assert gradient_bounds(again, LOSS).parameters == gradient_bounds(model, LOSS).parameters


@pytest.fixture
def check_bounds():
    """``check_bounds(layers, front)``: three logits, bounds that hold.

    The constant is at most that of the front end, the first ``front`` layers.
    """
    return _check_bounds


@pytest.fixture
def check_training(tmp_path):
    """``check_training(layers)``: two private steps, saved and loaded."""
    return lambda layers: _check_training(layers, tmp_path)
