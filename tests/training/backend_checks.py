"""Private training under fit, run under each backend by test_backends.py."""

import itertools
import sys

import keras
import numpy as np

import lipdp
from lipdp.layers import BoundedInput, MaxMin, SpectralDense
from lipdp.losses import MulticlassHinge, TemperedCrossentropy


def watch(model, into):
    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            into.append([keras.ops.convert_to_numpy(v).copy() for v in model.trainable_variables])

    return Watch()


def check_noise_is_fresh():
    """Pure noise (rows of zeros), a step an epoch: no two draws may be alike."""
    model = lipdp.Sequential(
        [
            BoundedInput((60,), radius=1.0),
            keras.layers.Dense(50, use_bias=False, kernel_initializer="zeros"),
            lipdp.layers.CotangentClip(1.0),
            lipdp.layers.SphereNormalization(1.0, min_norm=1.0),
            keras.layers.Dense(60, use_bias=False, kernel_initializer="zeros"),
        ]
    )
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    model.compile(keras.optimizers.SGD(1.0), MulticlassHinge(margin=1.0), privacy=budget)
    seen = [[np.zeros(v.shape) for v in model.trainable_variables]]
    x = np.zeros((20, 60), "float32")
    model.fit(
        x, np.zeros(20, "int64"), batch_size=20, epochs=4, verbose=0, callbacks=[watch(model, seen)]
    )
    pairs = itertools.pairwise(seen)
    draws = [b - a for pair in pairs for a, b in zip(*pair, strict=True)]
    draws = [d.ravel()[:3000] for d in draws]
    expected = [s / 20 for s in model.plan.stddevs] * 4
    for draw, stddev in zip(draws, expected, strict=True):
        # 3000 entries: relative deviation of the scale 1.3 %, five times that.
        np.testing.assert_allclose(draw.std(), stddev, rtol=0.065)
    for i, a in enumerate(draws):
        for b in draws[:i]:
            assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(3000)


def check_training_learns_and_counts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    model = lipdp.Sequential(
        [BoundedInput((4,), radius=2.0), SpectralDense(8), MaxMin(), SpectralDense(2)]
    )
    model.compile(
        keras.optimizers.Adam(0.05),
        TemperedCrossentropy(inverse_temperature=8.0),
        metrics=["accuracy"],
        privacy=lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5),
    )
    history = model.fit(x, y, batch_size=100, epochs=10, validation_data=(x, y), verbose=0).history
    assert history["val_accuracy"][-1] > 0.85, history
    assert 7.92 <= history["epsilon"][-1] <= 8.0
    assert model.ledger.steps == 60
    radii = lipdp.certify(model, x, y).radii
    assert abs(history["val_certified_accuracy"][-1] - (radii > 0.05).mean()) < 0.01


def check_bounds_hold_after_training():
    from lipdp.bounds.probe import per_sample_gradient_norms

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    loss = TemperedCrossentropy(inverse_temperature=8.0)
    model = lipdp.Sequential(
        [BoundedInput((4,), radius=2.0), SpectralDense(8), MaxMin(), SpectralDense(2)]
    )
    model.compile("sgd", loss, privacy=lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(x, y, batch_size=50, epochs=3, verbose=0)
    bounds = np.asarray(model.gradient_bounds().parameters)
    assert (per_sample_gradient_norms(model, loss, x[:50], y[:50]) <= bounds).all()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
