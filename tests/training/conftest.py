"""A small private model and rows to train it on."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.layers import BoundedInput, MaxMin, SpectralDense
from lipdp.losses import MulticlassHinge


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype("float32")
    return x, (x[:, 0] > 0).astype("int64")


@pytest.fixture
def make_model():
    """``make_model(budget, optimizer=..., **compile options)``: compiled, two hidden layers."""

    def make(budget, optimizer=None, loss=None, dtype="float32", **options):
        keras.utils.set_random_seed(0)
        model = lipdp.Sequential(
            [
                BoundedInput((4,), radius=2.0, dtype=dtype),
                SpectralDense(6, dtype=dtype),
                MaxMin(dtype=dtype),
                SpectralDense(2, dtype=dtype),
            ]
        )
        optimizer = keras.optimizers.SGD(0.1) if optimizer is None else optimizer
        loss = MulticlassHinge(margin=0.5) if loss is None else loss
        model.compile(optimizer, loss, privacy=budget, **options)
        return model

    return make
