"""Computed against exact outputs, with layers in front of the ball."""

import math

import keras
import numpy as np
import pytest

from lipdp.bounds import numerical_error
from lipdp.certificates import certify
from lipdp.layers import (
    ActivationClip,
    BoundedInput,
    MaxMin,
    SpectralDense,
    SphereNormalization,
)

FRONTS = {
    "flatten": lambda dtype: [keras.layers.Flatten(dtype=dtype)],
    "crop": lambda dtype: [keras.layers.Cropping1D(1, dtype=dtype)],
    "pad and move": lambda dtype: [
        keras.layers.ZeroPadding1D(1, dtype=dtype),
        keras.layers.Permute((2, 1), dtype=dtype),
        keras.layers.Reshape((18,), dtype=dtype),
    ],
    "rescale": lambda dtype: [keras.layers.Rescaling(1 / 255.0, dtype=dtype)],
    "rescale twice and crop": lambda dtype: [
        keras.layers.Rescaling(1 / 3, offset=-0.7, dtype=dtype),
        keras.layers.Rescaling(1 / 7, offset=0.1, dtype=dtype),
        keras.layers.Cropping1D(1, dtype=dtype),
    ],
}


def network(dtype, front, radius=1.0):
    inputs = keras.Input((4, 3), dtype=dtype)
    x = inputs
    for layer in front:
        x = layer(x)
    x = keras.layers.Flatten(dtype=dtype)(x)
    x = BoundedInput(x.shape[1:], radius, dtype=dtype)(x)
    x = MaxMin(dtype=dtype)(SpectralDense(6, dtype=dtype)(x))
    return keras.Model(inputs, SpectralDense(3, dtype=dtype)(x))


@pytest.mark.parametrize("name", FRONTS)
def test_layers_in_front_of_the_ball_have_a_bounded_error(name):
    """Rows deep inside the ball, far outside, and such that an offset cancels."""
    low, high = (network(dtype, FRONTS[name](dtype)) for dtype in ("float32", "float64"))
    high.set_weights(low.get_weights())
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-6, 6, size=(4096, 1, 1))
    x = (rng.normal(size=(4096, 4, 3)) * sizes).astype("float32")
    x[:512] = (2.1 + 1e-6 * rng.normal(size=(512, 4, 3))).astype("float32")
    computed, exact = (np.asarray(m.predict_on_batch(x), "float64") for m in (low, high))
    gap = np.linalg.norm(computed - exact, axis=1).max()
    assert 0 < gap <= numerical_error(low) + numerical_error(high)
    assert numerical_error(low) < 3e-5
    assert certify(low, x[:64]).radii.max() > 0.0


@pytest.mark.parametrize(
    "front",
    [
        keras.layers.Rescaling(1.5),
        keras.layers.Rescaling(1.0, offset=1.0),
        keras.layers.Rescaling(0.5, offset=1e30),
        keras.layers.Flatten(dtype="float64"),
    ],
)
def test_what_may_overflow_or_casts_has_no_error_bound(front):
    assert numerical_error(network("float32", [front])) == math.inf


def test_a_ball_of_each_position_has_no_error_bound_behind_a_factor():
    """The proof is about one ball; without a factor in front nothing is off."""
    for front, found in (([], True), ([keras.layers.Rescaling(0.5)], False)):
        clip = ActivationClip(1.0, per_position=True)
        model = keras.Sequential([keras.Input((4, 3)), *front, clip, keras.layers.Flatten()])
        assert math.isfinite(numerical_error(model)) is found


def test_another_layer_behind_a_factor_has_no_error_bound():
    front = [keras.layers.Rescaling(0.5), SphereNormalization(1.0, 1.0)]
    model = keras.Sequential([keras.Input((4,)), *front, SpectralDense(2)])
    assert numerical_error(model) == math.inf


def test_a_factor_that_nothing_bounds_has_no_error_bound():
    assert numerical_error(keras.Sequential([keras.Input((4,)), keras.layers.Rescaling(0.5)])) == (
        math.inf
    )


def test_a_cast_between_layers_counts():
    """A float64 layer that reads float32, and a float32 layer that reads float64."""
    inputs = keras.Input((4,))
    errors = {}
    for dtype in ("float32", "float64"):
        x = BoundedInput((4,), 1.0, dtype="float64")(keras.Input((4,), dtype="float64"))
        moved = keras.layers.Flatten(dtype=dtype)(x)
        errors[dtype] = numerical_error(keras.Model(x._keras_history.operation.input, moved))
    assert errors["float32"] > 2.0**-24 > errors["float64"]
    assert numerical_error(keras.Model(inputs, keras.layers.Flatten()(inputs))) == 0.0


def test_rounding_in_front_of_the_ball_is_added():
    inputs, ball = keras.Input((2,)), lambda: BoundedInput((2,), radius=4.0)
    alone = numerical_error(keras.Sequential([inputs, ball()]))
    behind = numerical_error(keras.Sequential([inputs, keras.layers.Rescaling(1 / 3), ball()]))
    assert behind >= alone + 4.0 * 2.0**-24


def test_an_error_is_multiplied_by_what_follows():
    ball, dense = BoundedInput((2,), radius=1.0), keras.layers.Dense(2, trainable=False)
    before = numerical_error(keras.Sequential([ball]))
    model = keras.Sequential([ball, dense])
    dense.kernel.assign([[10.0, 0.0], [0.0, 10.0]])
    assert numerical_error(model) >= 10.0 * (before + 2.0**-24)
