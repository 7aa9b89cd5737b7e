"""Exact Jacobians of Keras' convolutions against their rules."""

import math
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from lipdp.bounds.rules import bounds_of
from lipdp.bounds.rules.base import Shapes
from lipdp.bounds.rules.linear import RULES
from lipdp.errors import BoundViolation, UnsupportedLayer
from lipdp.projections import (
    BjorckProjection,
    ChannelBall,
    FrobeniusProjection,
    L2Ball,
    MaxBall,
    SpectralProjection,
)
from lipdp.testing.check_layer import check_layer

kl = keras.layers
UNIT = 2.0**-53
HOST = 1.0 + 2.0**-40

BALLS = {"kernel_constraint": SpectralProjection(0.7), "bias_constraint": L2Ball(0.4)}
CHANNELS = {"depthwise_constraint": ChannelBall(0.8), "bias_constraint": L2Ball(0.4)}
BOTH = {**CHANNELS, "pointwise_constraint": FrobeniusProjection(0.9)}

# Kind, positional arguments, other arguments, sample shape.
CALLS = [
    (kl.Conv1D, (2, 3), {"padding": "same", "strides": 2}, (5, 2)),
    (kl.Conv1D, (2, 2), {"padding": "causal", "dilation_rate": 2}, (4, 2)),
    (kl.Conv2D, (2, 3), {"padding": "same", "activation": "relu"}, (3, 3, 1)),
    (kl.Conv2D, (1, (3, 2)), {"padding": "same", "strides": (2, 1)}, (4, 3, 2)),
    (kl.Conv2D, (2, 2), {"dilation_rate": 2, "activation": "tanh"}, (4, 4, 1)),
    (kl.Conv2D, (4, 2), {"groups": 2, "use_bias": False}, (2, 3, 2)),
    (kl.Conv3D, (2, 2), {}, (3, 2, 2, 1)),
    (kl.Conv1DTranspose, (2, 3), {"strides": 2, "padding": "same"}, (3, 2)),
    (kl.Conv2DTranspose, (1, 3), {"strides": 2}, (2, 2, 2)),
    (kl.Conv2DTranspose, (2, (2, 3)), {"padding": "same", "use_bias": False}, (2, 3, 1)),
    (kl.Conv3DTranspose, (1, 2), {"strides": (1, 2, 1)}, (1, 2, 2, 2)),
    (kl.DepthwiseConv1D, (3,), {"depth_multiplier": 2, "padding": "same"}, (4, 2)),
    (kl.DepthwiseConv2D, (2,), {"strides": 2, "activation": "relu"}, (4, 4, 2)),
    (kl.SeparableConv1D, (2, 3), {"padding": "same"}, (4, 2)),
    (kl.SeparableConv2D, (2, 2), {"depth_multiplier": 2, "activation": "relu"}, (3, 3, 2)),
]
IDS = [f"{kind.__name__}-{i}" for i, (kind, *_) in enumerate(CALLS)]


def make(call, seed=0, **constraints):
    """A layer with random weights of its sets."""
    kind, arguments, options, shape = call
    layer = kind(*arguments, **options, **constraints, dtype="float64")
    layer.build((None, *shape))
    rng = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        value = rng.normal(size=variable.shape)
        variable.assign(variable.constraint(value) if variable.constraint else value)
    return layer


def sets_of(kind):
    return BOTH if "Separable" in kind.__name__ else CHANNELS if "Depth" in kind.__name__ else BALLS


def rule_of(layer, shape):
    output = layer(np.zeros((1, *shape))).shape[1:]
    return RULES[type(layer)](layer, Shapes((tuple(shape),), tuple(output)))


def variable_jacobians(layer, x):
    with tf.GradientTape(persistent=True) as tape:
        outputs = tf.unstack(tf.reshape(layer(x[None]), (-1,)))
    for variable in layer.trainable_variables:
        rows = [tape.gradient(y, variable.value).numpy().ravel() for y in outputs]
        yield float(np.linalg.norm(rows, 2))


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_bounds_of_constrained_layers(call, jacobian):
    for seed in range(2):
        layer, shape = make(call, seed, **sets_of(call[0])), call[3]
        rule = rule_of(layer, shape)
        slack = HOST * (1.0 + rule.rounding(UNIT))
        x = np.random.default_rng(seed).normal(size=shape) if seed else np.ones(shape)
        r = float(np.linalg.norm(x))
        norm = np.linalg.norm(jacobian(layer, x), 2)
        assert 0.0 < norm <= rule.lipschitz(r) * slack
        assert rule.lipschitz(r) <= rule.backward_bound(r, 1.0) * HOST
        assert np.linalg.norm(layer(x[None])) <= rule.forward_bound(r) * slack
        bounds = rule.parameter_bounds(r, 1.0)
        assert len(bounds) == len(layer.trainable_variables)
        for exact, bound in zip(variable_jacobians(layer, x), bounds, strict=True):
            assert exact <= bound * slack


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_free_kernels_have_bounds_of_their_gradients_only(call):
    layer, shape = make(call), call[3]
    rule = rule_of(layer, shape)
    if "Separable" in call[0].__name__ or call[2].get("activation") == "tanh":
        # The gradient of each kernel grows with the other; tanh has no slope at infinity.
        assert rule.parameter_bounds(1.0, 1.0)[0] == math.inf
        return
    assert rule.backward_bound(1.0, 1.0) == rule.forward_bound(1.0) == math.inf
    x = np.random.default_rng(0).normal(size=shape)
    bounds = rule.parameter_bounds(float(np.linalg.norm(x)), 1.0)
    for exact, bound in zip(variable_jacobians(layer, x), bounds, strict=True):
        assert exact <= bound * HOST < math.inf
    assert rule.lipschitz(1.0) < math.inf


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_frozen_layers_have_the_norm_of_now(call, jacobian):
    layer, shape = make(call, 3), call[3]
    layer.trainable = False
    rule = rule_of(layer, shape)
    assert rule.parameter_bounds(1.0, 1.0) == []
    assert rule.backward_bound(1.0, 1.0) == rule.lipschitz(1.0)
    slack = HOST * (1.0 + rule.rounding(UNIT))
    assert np.linalg.norm(jacobian(layer, np.ones(shape)), 2) <= rule.lipschitz(1.0) * slack


# Long axes: zeros around make the norm of the circular convolution hardly less.
STRIDED = [
    (kl.Conv1D, (2, 5), {"strides": 2, "padding": "same"}, (48, 2)),
    (kl.Conv1D, (2, 3), {"strides": 2, "padding": "causal"}, (48, 2)),
    (kl.Conv1D, (4, 4), {"strides": 3, "groups": 2}, (49, 2)),
    (kl.Conv2D, (2, 3), {"strides": (2, 1), "padding": "same"}, (13, 12, 1)),
    (kl.Conv3D, (1, 3), {"strides": 2, "padding": "same"}, (7, 6, 7, 1)),
    (kl.Conv1DTranspose, (2, 5), {"strides": 2, "padding": "same"}, (24, 2)),
    (kl.Conv2DTranspose, (2, 3), {"strides": 2}, (6, 6, 1)),
    (kl.DepthwiseConv1D, (5,), {"strides": 2, "padding": "same", "depth_multiplier": 2}, (48, 2)),
    (kl.DepthwiseConv2D, (3,), {"strides": 2, "padding": "same"}, (13, 13, 2)),
]


@pytest.mark.parametrize(
    "call", STRIDED, ids=[f"{c[0].__name__}-{i}" for i, c in enumerate(STRIDED)]
)
@pytest.mark.parametrize("frozen", [False, True])
def test_strides_are_in_the_norm_of_now(call, frozen, jacobian):
    layer, shape = make(call, 1), call[3]
    layer.trainable = not frozen
    rule = rule_of(layer, shape)
    norm = np.linalg.norm(jacobian(layer, np.zeros(shape)), 2)
    slack = HOST * (1.0 + rule.rounding(UNIT))
    loose = 1.03 if len(shape) == 2 else 1.2
    assert norm <= rule.lipschitz(1.0) * slack <= loose * norm
    assert rule.backward_bound(1.0, 1.0) == (rule.lipschitz(1.0) if frozen else math.inf)


def test_strides_are_in_the_norm_of_the_first_part_of_a_separable_convolution(jacobian):
    call = (kl.SeparableConv1D, (3, 5), {"strides": 2, "padding": "same"}, (48, 2))
    layer = make(call, 1)
    first = kl.DepthwiseConv1D(5, strides=2, padding="same", use_bias=False, dtype="float64")
    first.build((None, 48, 2))
    first.kernel.assign(layer.depthwise_kernel)
    norm = np.linalg.norm(jacobian(first, np.zeros((48, 2))), 2)
    norm *= np.linalg.norm(layer.pointwise_kernel.numpy()[0], 2)
    assert norm <= rule_of(layer, (48, 2)).lipschitz(1.0) * HOST <= 1.03 * norm


def test_separable_kernels_one_by_one():
    call = (kl.SeparableConv1D, (2, 3), {"depth_multiplier": 2}, (5, 2))
    layer = make(call, **BOTH)
    depthwise, pointwise, bias = rule_of(layer, (5, 2)).parameter_bounds(1.0, 1.0)
    assert depthwise == pytest.approx(math.sqrt(3.0) * 0.9)  # |pointwise| behind it
    assert pointwise == pytest.approx(math.sqrt(3.0) * 0.8)  # |depthwise| in front
    assert bias == pytest.approx(math.sqrt(3.0))  # three positions
    names = [v.name for v in layer.trainable_variables]
    assert names == ["depthwise_kernel", "pointwise_kernel", "bias"]


def test_frozen_kernels_use_the_smaller_norm():
    """By counting 3 at stride 1, where signs make the Fourier bound less; else at stride 3."""
    layer = make((kl.Conv1D, (1, 3), {"padding": "same", "use_bias": False}, (8, 1)))
    layer.trainable = False
    layer.kernel.assign(np.array([1.0, 1.0, -1.0]).reshape(3, 1, 1))
    fourier = rule_of(layer, (8, 1))
    assert fourier.lipschitz(1.0) < 2.5
    strided = make(
        (kl.Conv1D, (1, 3), {"padding": "same", "strides": 3, "use_bias": False}, (9, 1))
    )
    strided.trainable = False
    strided.kernel.assign(np.ones((3, 1, 1)))
    assert rule_of(strided, (9, 1)).lipschitz(1.0) == pytest.approx(math.sqrt(3.0))
    # Its inner products may cancel: the slack is that of absolute values, against this norm.
    ratio = 3.0 / fourier.lipschitz(1.0)
    assert fourier.rounding(UNIT) >= 3 * UNIT * ratio


@pytest.mark.parametrize(
    ("ball", "norm"),
    [
        (ChannelBall(0.8), 0.8),
        (ChannelBall(0.8, axis=2), 0.8),
        (ChannelBall(0.8, axis=-1), 0.8 * math.sqrt(3.0)),
        (SpectralProjection(0.7), 0.7),
    ],
)
def test_sets_of_depthwise_kernels(ball, norm):
    options = {"depth_multiplier": 3, "depthwise_constraint": ball, "use_bias": False}
    layer = make((kl.DepthwiseConv2D, (2,), options, (4, 4, 2)))
    assert rule_of(layer, (4, 4, 2)).backward_bound(1.0, 1.0) == pytest.approx(2.0 * norm)


def test_channel_balls_of_a_full_kernel_count_together():
    layer = make((kl.Conv2D, (4, 2), {"kernel_constraint": ChannelBall(0.5)}, (4, 4, 4)))
    assert rule_of(layer, (4, 4, 4)).backward_bound(1.0, 1.0) == pytest.approx(2.0 * 0.5 * 2.0)


def test_constant_image():
    """Its kernel gradient is nearly the root of kappa: by the edges 2.8813 instead of 3."""
    layer = make((kl.Conv2D, (1, 3), {"padding": "same", "use_bias": False}, (28, 28, 1)))
    rule = rule_of(layer, (28, 28, 1))
    assert rule.parameter_bounds(1.0, 1.0) == [3.0]
    x = np.full((1, 28, 28, 1), 1.0 / 28.0)
    layer.kernel.assign(np.ones((3, 3, 1, 1)))
    for _ in range(20):
        with tf.GradientTape() as tape:
            y = layer(x)
        gradient = tape.gradient(y, layer.kernel.value, output_gradients=y / tf.norm(y)).numpy()
        layer.kernel.assign(gradient / np.linalg.norm(gradient))
    assert np.linalg.norm(gradient) == pytest.approx(2.8813, abs=1e-4)


def test_average_coverage_is_caught(jacobian):
    """Orthonormal kernels reach 1.2 times what it states on 4x4."""
    layer = kl.Conv2D(9, 3, padding="same", use_bias=False, kernel_constraint=BjorckProjection(12))
    average = math.sqrt((3 * 4 - 2) * (3 * 4 - 2) / 16)

    def lie(own):
        return replace(rule_of(own, (4, 4, 1)), reach=average, operator=average)

    with pytest.raises(BoundViolation):
        check_layer(layer, (4, 4, 1), 1.0, rule=lie)
    layer.kernel.assign(np.eye(9).reshape(3, 3, 1, 9))
    reached = np.linalg.norm(jacobian(layer, np.zeros((4, 4, 1))), 2)
    assert reached == pytest.approx(1.2 * average, rel=1e-5)
    assert reached <= rule_of(layer, (4, 4, 1)).backward_bound(1.0, 1.0) * (1.0 + 1e-5)


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (kl.Conv2D(2, 2, data_format="channels_first"), (1, 4, 4), "channels_last"),
        (kl.DepthwiseConv2D(2, data_format="channels_first"), (1, 4, 4), "channels_last"),
        (kl.Conv1DTranspose(2, 3, strides=2, output_padding=1), (4, 1), "pads its output"),
        (kl.Conv2DTranspose(2, 2, output_padding=1, strides=3), (4, 4, 1), "pads its output"),
    ],
)
def test_layers_without_proof_are_refused(layer, shape, message):
    layer.build((None, *shape))
    output = tuple(layer.compute_output_shape((None, *shape)))[1:]
    with pytest.raises(UnsupportedLayer, match=message):
        RULES[type(layer)](layer, Shapes((shape,), output))


@pytest.mark.parametrize("frozen", [False, True])
def test_the_kernel_counts_and_not_what_is_said_of_it(frozen):
    """Keras computes with the kernel and the bias that it made."""
    layer = kl.Conv2D(4, 3, kernel_constraint=BjorckProjection())
    layer.build((None, 6, 6, 4))
    layer.bias.assign(np.ones(4))
    layer.bias.trainable = False
    layer.kernel.trainable = not frozen
    honest = rule_of(layer, (6, 6, 4)).forward_bound(1.0)
    layer.groups, layer.kernel_size = 4, (1, 1)
    shapes = Shapes(((6, 6, 4),), (4, 4, 4))
    assert RULES[kl.Conv2D](layer, shapes).forward_bound(1.0) == honest


def test_the_bias_of_a_dense_layer_counts_while_it_is_there():
    layer = kl.Dense(3, bias_constraint=MaxBall(1.0), kernel_constraint=BjorckProjection())
    layer.build((None, 4))
    before = bounds_of(layer, Shapes(((4,),), (3,))).forward_bound(1.0)
    layer.use_bias = False
    assert bounds_of(layer, Shapes(((4,),), (3,))).forward_bound(1.0) == before


def test_low_rank_kernels_are_refused():
    layer = kl.Conv2D(2, 2)
    layer.build((None, 4, 4, 1))
    layer.enable_lora(1)
    with pytest.raises(UnsupportedLayer, match="LoRA"):
        RULES[kl.Conv2D](layer, Shapes(((4, 4, 1),), (3, 3, 2)))
