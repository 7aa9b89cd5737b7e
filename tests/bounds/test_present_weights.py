"""Bounds hold at the weights of now, inside their sets or not; calls are what they seem."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from lipdp.bounds import gradient_bounds, lipschitz_constant
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.errors import UnsupportedLayer
from lipdp.layers import (
    BoundedInput,
    MaxMin,
    SpectralConv2D,
    SpectralConv2DTranspose,
    SpectralDense,
)
from lipdp.losses import MulticlassHinge
from lipdp.projections import BjorckProjection, ChannelBall, L2Ball, MaxBall

LOSS = MulticlassHinge(margin=1.0)
L = keras.layers


def layers_with_a_set():
    ball = {"kernel_constraint": BjorckProjection(), "bias_constraint": L2Ball(0.1)}
    return {
        "dense": [L.Flatten(), L.Dense(6, **ball)],
        "convolution": [L.Conv2D(2, 3, **ball), L.Flatten()],
        "depthwise": [
            L.DepthwiseConv2D(2, depthwise_constraint=ChannelBall(0.5), use_bias=False),
            L.Flatten(),
        ],
        "slopes": [L.Flatten(), L.PReLU(alpha_constraint=MaxBall(0.5)), SpectralDense(6)],
        "slopes in a Euclidean ball": [L.Flatten(), L.PReLU(alpha_constraint=L2Ball(0.5))],
    }


@pytest.mark.parametrize("kind", layers_with_a_set())
def test_a_weight_outside_its_set_is_counted(kind):
    rng = np.random.default_rng(0)
    inside = layers_with_a_set()[kind]
    model = keras.Sequential([BoundedInput((4, 4, 2), radius=1.0), *inside, SpectralDense(3)])
    for variable in model.trainable_variables[:-1]:
        variable.assign(5.0 * rng.normal(size=variable.shape))
    bounds = gradient_bounds(model, LOSS).parameters
    x = rng.normal(size=(8, 4, 4, 2)).astype("float32")
    norms = per_sample_gradient_norms(model, LOSS, x, np.arange(8) % 3)
    assert np.all(norms <= bounds)
    # The head's gradient is beyond what the sets alone allow.
    assert norms[:, -1].max() > 2.0


def test_dropout_that_stays_on_is_refused():
    inputs = keras.Input((4,))
    x = L.Dropout(0.5)(BoundedInput((4,), radius=1.0)(inputs), training=True)
    model = keras.Model(inputs, SpectralDense(2)(x))
    with pytest.raises(UnsupportedLayer, match="more than its input"):
        lipschitz_constant(model)


def test_operators_name_the_layer_to_use_instead():
    inputs = keras.Input((4,))
    x = BoundedInput((4,), radius=1.0)(inputs)
    model = keras.Model(inputs, SpectralDense(2)(x + x))
    with pytest.raises(UnsupportedLayer, match=r"keras\.layers\.Add"):
        gradient_bounds(model, LOSS)


def strided(*layers):
    return keras.Sequential([BoundedInput((12, 12, 2), radius=9.0, dtype="float64"), *layers])


def jacobian(model, x):
    """One copy of the sample for each output."""
    outputs = int(np.prod(model.output_shape[1:]))
    rows = tf.constant(np.repeat(x[None], outputs, axis=0))
    with tf.GradientTape() as tape:
        tape.watch(rows)
        y = model(rows, training=False)
    cotangents = tf.reshape(tf.eye(outputs, dtype=y.dtype), tf.shape(y))
    return tape.gradient(y, rows, output_gradients=cotangents).numpy().reshape(outputs, -1)


def steepest(model, seed):
    """Greatest slope that ascent finds, going along the steepest direction of where it is."""
    x = 0.1 * np.random.default_rng(seed).normal(size=(12, 12, 2))
    best = 0.0
    for _ in range(4):
        _, slopes, directions = np.linalg.svd(jacobian(model, x), full_matrices=False)
        other = x + 0.2 * directions[0].reshape(x.shape)
        ahead, here = np.asarray(model(np.stack([other, x]), training=False))
        best = max(best, slopes[0], np.linalg.norm(ahead - here) / np.linalg.norm(other - x))
        x = other
    return best


def test_no_ascent_over_inputs_exceeds_the_constant_of_a_strided_network():
    keras.utils.set_random_seed(0)
    options = {"dtype": "float64"}
    model = strided(
        SpectralConv2D(4, 5, 2, **options),
        MaxMin(**options),
        L.Conv2D(4, 3, strides=2, padding="same", **options),
        MaxMin(**options),
        SpectralConv2DTranspose(2, 3, 2, **options),
    )
    constant = lipschitz_constant(model)
    found = max(steepest(model, seed) for seed in range(2))
    assert 0.25 * constant < found <= constant


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_the_constant_of_one_strided_layer_is_nearly_attained(padding):
    keras.utils.set_random_seed(0)
    model = strided(SpectralConv2D(4, 5, 2, padding, dtype="float64"))
    constant = lipschitz_constant(model)
    assert 0.8 * constant < steepest(model, 0) <= constant < 0.75
