"""The noise that a step really adds, measured on the weights; faults of the known kinds fail."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.layers import BoundedInput
from lipdp.losses import MulticlassHinge
from lipdp.training.batches import PrivateBatches

BATCH, SIGMA, CLASSES = 100, 2.0, 1000
EXPECTED = SIGMA * np.sqrt(2) / BATCH


def weight_changes(steps=1, seed=None, batch=BATCH):
    """Changes of a million weights, a step each: rows of zeros leave the noise alone."""
    dense = keras.layers.Dense(CLASSES, use_bias=False, kernel_initializer="zeros", dtype="float64")
    model = lipdp.Sequential([BoundedInput((1000,), radius=1.0, dtype="float64"), dense])
    budget = lipdp.PrivacyBudget(noise_multiplier=SIGMA, delta=1e-5, seed=seed)
    model.compile(keras.optimizers.SGD(1.0), MulticlassHinge(margin=1.0), privacy=budget)
    seen = [np.zeros((1000, CLASSES))]

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, step, logs=None):
            seen.append(keras.ops.convert_to_numpy(dense.kernel).copy())

    x = np.zeros((steps * batch, 1000))
    model.fit(x, np.zeros(len(x), "int64"), batch_size=batch, verbose=0, callbacks=[Watch()])
    return np.diff(np.stack(seen), axis=0)


#: Five sigma of the standard deviation of a million entries.
FIVE_SIGMA = 5 / np.sqrt(2 * 1e6)


def test_noise_lands_at_the_right_scale():
    (change,) = weight_changes()
    assert change.std() == pytest.approx(EXPECTED, rel=FIVE_SIGMA)
    assert abs(change.mean()) <= 5 * EXPECTED / 1000


def test_no_two_steps_share_their_noise():
    first, second = weight_changes(steps=2)
    # Independent unit vectors of a million entries: correlation 0 +- 0.001, five sigma.
    correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
    assert abs(correlation) < 0.005
    assert second.std() == pytest.approx(EXPECTED, rel=FIVE_SIGMA)


def test_unseeded_runs_differ_and_seeded_runs_agree():
    assert not np.array_equal(weight_changes(), weight_changes())
    assert np.array_equal(weight_changes(seed=5), weight_changes(seed=5))


def test_each_variable_gets_the_noise_of_its_own_bound(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.5, delta=1e-5))
    model.fit(*rows, batch_size=20, verbose=0)
    plan = model.plan
    spent = sum((d / s) ** 2 for d, s in zip(plan.sensitivities, plan.stddevs, strict=True))
    assert 0.999 / 1.5**2 < spent <= 1 / 1.5**2


def test_the_divisor_is_the_expected_batch_size(make_model, rows):
    """Without noise one step moves the weights by the gradient of the sum over b."""
    x, y = rows
    budget = lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5, seed=1)
    moved = {}
    for n in (200, 199):
        model = make_model(budget)
        model.fit(x[:n], y[:n], batch_size=40, verbose=0)
        moved[n] = model.optimizer._mechanism.divisor
    assert moved == {200: 40, 199: 40}


def test_masked_slots_count_for_nothing(make_model, rows, monkeypatch):
    """The padded step equals a step on the drawn rows alone, in weights and in metrics."""
    x, y = rows
    budget = lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5, seed=3)
    model = make_model(budget, metrics=["accuracy"], dtype="float64")
    start, drawn = [], []
    original = PrivateBatches.__getitem__

    class Recording(PrivateBatches):
        def __getitem__(self, index):
            drawn.append(original(self, index))
            return drawn[-1]

    make = lipdp.training.fit.batches_of

    def recording(*arguments):
        batches = make(*arguments)
        start.extend(model.get_weights())  # inside the constraint sets
        batches.__class__ = Recording
        return batches

    monkeypatch.setattr(lipdp.training.fit, "batches_of", recording)
    history = model.fit(x, y, batch_size=120, epochs=1, verbose=0, callbacks=[OneStep()])
    final = model.get_weights()
    results = [_plain_step(make_model, start, batch) for batch in drawn]
    assert any(
        all(np.allclose(a, b, atol=1e-5) for a, b in zip(weights, final, strict=True))
        and accuracy == pytest.approx(history.history["accuracy"][0])
        for weights, accuracy in results
    )


class OneStep(keras.callbacks.Callback):
    def on_train_batch_end(self, step, logs=None):
        self.model.stop_training = True


def _plain_step(make_model, start, batch):
    x, y, mask = batch
    model = make_model(None, dtype="float64", optimizer=keras.optimizers.SGD(0.1))
    model.set_weights(start)
    kept = mask > 0
    predictions = model.predict(x[kept], verbose=0).argmax(axis=1)
    model.optimizer.learning_rate = 0.1 * kept.sum() / 120
    model.train_on_batch(x[kept], y[kept])
    return model.get_weights(), float((predictions == y[kept]).mean())


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"run_eagerly": True}, {"jit_compile": True}])
def test_eager_graph_and_compiled_steps_agree(make_model, rows, options):
    budget = lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5, seed=2)
    weights = []
    for chosen in ({}, options):
        model = make_model(budget, **chosen)
        model.fit(*rows, batch_size=50, epochs=2, verbose=0)
        weights.append(model.get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
