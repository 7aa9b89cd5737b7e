"""A small private model and rows to train it on."""

import math

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


@pytest.fixture
def check_units():
    """``check_units(model, x, matrix)``: a linear head behind ``x @ matrix`` in a ball of 2."""
    return _check_units


def _check_units(model, x, matrix):
    # The gradient bound behind the ball does not depend on the statistics.
    (bound,) = model.gradient_bounds().parameters
    assert bound == pytest.approx(math.sqrt(2.0), rel=1e-3)
    exact = np.linalg.norm(matrix, 2) / 2.0
    assert exact * (1 - 1e-5) <= model.lipschitz_constant() <= exact * (1 + 1e-3)
    # No step of the certified length against the margin changes a class.
    found = lipdp.certify(model, x)
    kernel = np.asarray(model.layers[-1].kernel)
    whole = matrix @ (kernel[:, 1] - kernel[:, 0])
    sign = np.where(found.predictions == 1, -1.0, 1.0)[:, None]
    moved = x + 0.999 * sign * found.radii[:, None] * whole / np.linalg.norm(whole)
    assert (found.radii > 0).mean() > 0.5
    assert (lipdp.certify(model, moved.astype(x.dtype)).predictions == found.predictions).all()
