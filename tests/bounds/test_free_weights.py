"""Networks of unconstrained layers between a normalisation and a cotangent clip."""

import math

import keras
import numpy as np
import pytest

from lipdp.bounds import gradient_bounds, lipschitz_constant, numerical_error
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.certificates import certify
from lipdp.errors import UnboundedGradient
from lipdp.layers import BoundedInput, CotangentClip, SphereNormalization
from lipdp.losses import TemperedCrossentropy

R, C = 2.0, 0.25
LOSS = TemperedCrossentropy(inverse_temperature=64.0)
SLACK = 1e-4
HUGE = [1.0, 1e3, 1e20, 3e38]


def block(units, activation="relu"):
    """Normalise, linear map with its bias, clip the cotangent, then the activation."""
    return [
        SphereNormalization(R, min_norm=0.5),
        keras.layers.Dense(units),
        CotangentClip(C),
        keras.layers.Activation(activation),
    ]


def network(shape=(6,), activation="relu", head=3):
    layers = [BoundedInput(shape, 1.0), *block(5, activation), *block(4, activation)]
    flat = [keras.layers.Flatten()] if len(shape) > 1 else []
    return keras.Sequential([*layers, *flat, SphereNormalization(R, 0.5), keras.layers.Dense(head)])


def set_weights(model, size, seed=0):
    rng = np.random.default_rng(seed)
    for v in model.trainable_variables:
        v.assign(np.clip(size * rng.normal(size=v.shape), -3e38, 3e38).astype("float32"))


def rows(shape):
    rng = np.random.default_rng(1)
    x = np.stack([*rng.normal(size=(4, *shape)), *np.zeros((5, *shape))]).astype("float32")
    x[1] *= 1e3
    x[5], x[6], x[7] = np.nan, np.inf, 3e38
    x[8].flat[0] = 1e-30
    return x, np.arange(9) % 3


def assert_close_above(value, exact):
    assert exact <= value <= exact * (1.0 + SLACK)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_bounds_are_those_computed_by_hand(activation):
    bounds = gradient_bounds(network(activation=activation), LOSS).parameters
    top = math.sqrt(2)
    for bound, exact in zip(bounds, [R * C, C, R * C, C, R * top, top], strict=True):
        assert_close_above(bound, exact)


def test_a_bias_counts_at_each_position():
    bounds = gradient_bounds(network((7, 6)), LOSS).parameters
    top, root = math.sqrt(2), math.sqrt(7)
    exact = [R * C, root * C, R * C, root * C, R * top, top]
    for bound, value in zip(bounds, exact, strict=True):
        assert_close_above(bound, value)


def test_normalised_and_clipped_by_position():
    model = keras.Sequential(
        [
            BoundedInput((7, 6), 1.0),
            SphereNormalization(R, 0.5, per_position=True),
            keras.layers.Dense(5),
            CotangentClip(C, per_position=True),
            keras.layers.ReLU(),
            keras.layers.Flatten(),
            SphereNormalization(R, 0.5),
            keras.layers.Dense(3),
        ]
    )
    bounds = gradient_bounds(model, LOSS).parameters
    # The input of the block has norm 1, so that min(sqrt(7) R, 1 R / 0.5) = 4; 7 C R / R.
    assert_close_above(bounds[0], 4.0 * math.sqrt(7) * C)
    assert_close_above(bounds[1], 7.0 * C)
    check_gradients(model, (7, 6), HUGE)


def check_gradients(model, shape, sizes):
    bounds = np.asarray(gradient_bounds(model, LOSS).parameters)
    x, y = rows(shape)
    best = 0.0
    for size in sizes:
        set_weights(model, size)
        norms = per_sample_gradient_norms(model, LOSS, x, y, training=True)
        assert np.all(norms <= bounds), size
        best = max(best, float(np.max(norms / bounds)))
    assert best > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "tanh", "silu"])
def test_gradients_at_huge_weights(activation):
    check_gradients(network(activation=activation), (6,), HUGE)


@pytest.mark.parametrize("shape", [(3, 6)])
def test_gradients_at_huge_weights_of_positions(shape):
    check_gradients(network(shape), shape, [1e3, 3e38])


def test_two_free_layers_in_a_row_are_refused_with_both_cures():
    layers = [keras.layers.Dense(5, name="first"), keras.layers.Dense(3, name="second")]
    with pytest.raises(UnboundedGradient, match="first/kernel") as caught:
        gradient_bounds(keras.Sequential([BoundedInput((6,), 1.0), *layers]), LOSS)
    assert "SpectralDense" in str(caught.value)
    assert "CotangentClip" in str(caught.value)


@pytest.mark.parametrize("missing", [0, 2])
def test_half_a_cure_is_none(missing):
    inner = [layer for i, layer in enumerate(block(5)) if i != missing]
    layers = [BoundedInput((6,), 1.0), keras.layers.Dense(6), *inner, keras.layers.Dense(3)]
    with pytest.raises(UnboundedGradient):
        gradient_bounds(keras.Sequential(layers), LOSS)


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_an_activation_whose_derivative_may_be_nan_needs_the_clip_in_front(activation):
    """Huge weights overflow to NaN, where tanh has no finite derivative to pass back."""
    head = [SphereNormalization(R, 0.5), keras.layers.Dense(3)]
    layers = [keras.layers.Dense(5, activation=activation, name="free"), *head]
    with pytest.raises(UnboundedGradient, match="free"):
        gradient_bounds(keras.Sequential([BoundedInput((6,), 1.0), *layers]), LOSS)


def test_one_free_layer_behind_a_bounded_input():
    model = keras.Sequential([BoundedInput((6,), 2.0), keras.layers.Dense(3)])
    bounds = gradient_bounds(model, LOSS).parameters
    assert_close_above(bounds[0], 2 * math.sqrt(2))
    assert_close_above(bounds[1], math.sqrt(2))


@pytest.mark.parametrize("size", HUGE)
def test_no_radius_is_certified_at_huge_weights(size):
    model = network()
    set_weights(model, size)
    assert lipschitz_constant(model) > size
    assert not math.isnan(numerical_error(model))
    x, y = rows((6,))
    certificates = certify(model, x, y)
    radii = np.asarray(certificates.radii)
    assert not np.any(np.isnan(radii))
    assert np.all(radii <= (0.1 if size == 1.0 else 1e-3))
