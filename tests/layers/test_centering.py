"""Centering, CenterNorm and AbsoluteValue."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.errors import InvalidValue
from lipdp.layers.activations import AbsoluteValue
from lipdp.layers.normalization import Centering, CenterNorm

samples = hnp.arrays(np.float64, (4, 3), elements=st.floats(-1e6, 1e6))
LAYERS = {
    "last": Centering,
    "positions": lambda **k: Centering(1, **k),
    "norm": CenterNorm,
    "abs": AbsoluteValue,
}
ORACLES = {
    "last": lambda x: x - x.mean(axis=-1, keepdims=True),
    "positions": lambda x: x - x.mean(axis=0, keepdims=True),
    "norm": lambda x: 1.5 * (x - x.mean(axis=-1, keepdims=True)),
    "abs": np.abs,
}


@pytest.mark.parametrize("name", LAYERS)
@given(x=samples)
def test_values_and_their_norms(name, x):
    layer = LAYERS[name](dtype="float64")
    layer.build((None, 4, 3))
    y, norm = keras.ops.convert_to_numpy(layer(x[None]))[0], float(np.linalg.norm(x))
    np.testing.assert_allclose(y, ORACLES[name](x), rtol=1e-12, atol=1e-15 * (1.0 + norm))
    slack = 1.0 + layer.rounding(2.0**-53)
    assert np.linalg.norm(y) <= layer.forward_bound(norm) * slack


@pytest.mark.parametrize("name", LAYERS)
def test_constants_are_attained(name, operator_norm):
    layer = LAYERS[name](dtype="float64")
    layer.build((None, 4, 3))
    for x in (np.zeros((4, 3)), np.random.default_rng(0).normal(size=(4, 3))):
        exact, bound = operator_norm(layer, x), layer.backward_bound(1.0, 1.0)
        assert 1.0 - 1e-12 < exact / bound <= 1.0 + layer.rounding(2.0**-53)
    assert layer.lipschitz(1.0) == bound == (1.5 if name == "norm" else 1.0)


@pytest.mark.parametrize("size", [2, 100, 3000])
def test_long_means_of_float32(size):
    rng = np.random.default_rng(size)
    for layer in (Centering(), CenterNorm()):
        layer.build((None, size))
        x = (rng.normal(size=size) * rng.choice([1.0, 1e4], size)).astype("float32")
        x = x - np.float32(np.mean(x, dtype="float64"))  # where the bound is attained
        y = keras.ops.convert_to_numpy(layer(x[None])).astype("float64")
        bound = layer.forward_bound(float(np.linalg.norm(x.astype("float64"))))
        assert 0.99 * bound < np.linalg.norm(y) <= bound * (1.0 + layer.rounding(2.0**-24))


def test_the_derivative_of_the_absolute_value_never_vanishes(vjp):
    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -2.0, 3.0], np.float32)
    to_x, _ = vjp(AbsoluteValue(), x, np.ones(7, np.float32))
    np.testing.assert_array_equal(np.abs(to_x), 1.0)


@pytest.mark.parametrize("axis", [0, -3, 3, -4])
def test_axes_of_the_batch_are_refused(axis):
    with pytest.raises(InvalidValue, match="batch"):
        Centering(axis).build((None, 4, 3))


def test_arguments_and_configurations():
    with pytest.raises(InvalidValue):
        Centering(1.5)
    with pytest.raises(InvalidValue):
        CenterNorm().build((None, 4, 1))
    assert keras.layers.deserialize(keras.layers.serialize(Centering(1))).axis == 1
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    copy = keras.layers.deserialize(keras.layers.serialize(CenterNorm()))
    np.testing.assert_array_equal(copy(x), CenterNorm()(x))
