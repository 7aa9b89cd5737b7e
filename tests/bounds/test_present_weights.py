"""Bounds hold at the weights of now, inside their sets or not; calls are what they seem."""

import keras
import numpy as np
import pytest

from lipdp.bounds import gradient_bounds, lipschitz_constant
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.errors import UnsupportedLayer
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.projections import BjorckProjection, ChannelBall, L2Ball

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
