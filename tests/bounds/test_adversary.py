"""A long search over inputs and labels of whole dense nets, before and after training."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.layers import BoundedBias, BoundedInput, MaxMin, SpectralDense
from lipdp.losses import TemperedCrossentropy


def ascend(model, loss, bounds, rng, starts=100, steps=15):
    """Random ascent of all starts together on the greatest ratio of norm to bound."""
    x = rng.normal(size=(starts, 8)).astype("float32")
    y = rng.integers(0, 4, starts)
    best = np.zeros(starts)
    for step in range(steps):
        new = x + rng.normal(size=x.shape).astype("float32") * (0.3 if step else 0.0)
        ratios = (per_sample_gradient_norms(model, loss, new, y) / bounds).max(axis=1)
        better = ratios > best
        x[better], best[better] = new[better], ratios[better]
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
        assert 0.5 < ascend(model, loss, bounds, rng).max() <= 1.0
