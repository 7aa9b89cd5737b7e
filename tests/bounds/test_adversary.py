"""Searches over inputs, labels and weights of whole nets, before and after training."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.layers import BoundedBias, BoundedInput, MaxMin, SpectralDense
from lipdp.losses import TemperedCrossentropy
from lipdp.testing import check_model

LOSS = TemperedCrossentropy(inverse_temperature=8.0)


def net():
    keras.utils.set_random_seed(0)
    return lipdp.Sequential(
        [
            BoundedInput((8,), radius=1.0),
            SpectralDense(16),
            BoundedBias(0.5),
            MaxMin(),
            SpectralDense(4),
        ]
    )


def trained():
    model, rng = net(), np.random.default_rng(0)
    budget = lipdp.PrivacyBudget(noise_multiplier=0.5, delta=1e-5)
    model.compile(keras.optimizers.SGD(0.5), LOSS, privacy=budget)
    x = rng.normal(size=(500, 8)).astype("float32")
    model.fit(x, (x[:, 0] > 0) * 1, batch_size=100, epochs=3, verbose=0)
    return model


def test_the_search_comes_close_to_every_bound():
    # Pairs are sought at random: a seed whose few starts come well above what is asked for.
    found = check_model(net(), LOSS, steps=16, starts=12, seed=2).ratios
    assert len(found) == 4
    assert min(found.values()) > 0.9


@pytest.mark.slow
def test_ten_thousand_random_and_two_hundred_sought_inputs():
    model, rng = trained(), np.random.default_rng(0)
    bounds = np.asarray(lipdp.bounds.gradient_bounds(model, LOSS).parameters)
    scale = 10.0 ** rng.uniform(-3, 3, size=(10_000, 1))
    x = (rng.normal(size=(10_000, 8)) * scale).astype("float32")
    norms = per_sample_gradient_norms(model, LOSS, x, rng.integers(0, 4, len(x)))
    assert (norms <= bounds).all()
    assert check_model(model, LOSS, steps=8, starts=200).best > 0.95
