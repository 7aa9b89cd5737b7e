"""A long search over inputs and labels of whole dense nets, before and after training."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.layers import BoundedBias, BoundedInput, MaxMin, SpectralDense
from lipdp.losses import TemperedCrossentropy


def ascend(model, loss, bounds, rng, steps=15):
    """Random ascent on the greatest ratio of norm to bound."""
    x = rng.normal(size=(1, 8)).astype("float32")
    y = rng.integers(0, 4, 1)
    best = (per_sample_gradient_norms(model, loss, x, y) / bounds).max()
    for _ in range(steps):
        new = x + rng.normal(size=x.shape).astype("float32") * 0.3
        ratio = (per_sample_gradient_norms(model, loss, new, y) / bounds).max()
        if ratio > best:
            x, best = new, ratio
    return best


@pytest.mark.slow
def test_ten_thousand_random_and_two_hundred_sought_inputs():
    rng = np.random.default_rng(0)
    loss = TemperedCrossentropy(inverse_temperature=8.0)
    keras.utils.set_random_seed(0)
    model = lipdp.Sequential(
        [
            BoundedInput((8,), radius=1.0),
            SpectralDense(16),
            BoundedBias(0.5),
            MaxMin(),
            SpectralDense(4),
        ]
    )
    budget = lipdp.PrivacyBudget(noise_multiplier=0.5, delta=1e-5)
    model.compile(keras.optimizers.SGD(0.5), loss, privacy=budget)
    for trained in (False, True):
        if trained:
            x = rng.normal(size=(500, 8)).astype("float32")
            model.fit(x, (x[:, 0] > 0) * 1, batch_size=100, epochs=3, verbose=0)
        bounds = np.asarray(model.gradient_bounds().parameters)
        scale = 10.0 ** rng.uniform(-3, 3, size=(5000, 1))
        x = (rng.normal(size=(5000, 8)) * scale).astype("float32")
        norms = per_sample_gradient_norms(model, loss, x, rng.integers(0, 4, len(x)))
        assert (norms <= bounds).all()
        found = [ascend(model, loss, bounds, rng) for _ in range(100)]
        assert 0.5 < max(found) <= 1.0
