"""Numbers below the least normal one may be set to zero: bounds and certificates count it."""

import math

import keras
import numpy as np
import pytest

from lipdp.bounds import gradient_bounds, numerical_error
from lipdp.bounds.cotangent import Cotangent
from lipdp.bounds.graph import graph_of
from lipdp.bounds.steps import forward_steps
from lipdp.bounds.underflow import is_mostly_lost, lost_by, unless_zero, vast
from lipdp.certificates import certify
from lipdp.errors import UnboundedGradient
from lipdp.layers import (
    BoundedEmbedding,
    BoundedInput,
    CotangentClip,
    GlobalL2NormPooling,
    SpectralDense,
)
from lipdp.losses import ClippedLoss, MulticlassHinge

K = keras.layers
LOSS = MulticlassHinge(margin=0.5)
TINY, HUGE = 3e-38, 3e37


def angles(count=400):
    t = np.linspace(0.0, np.pi / 2, count)
    return np.stack([np.cos(t), np.sin(t)], axis=1).astype("float32")


def rotation(sine):
    cosine = math.sqrt(1.0 - sine * sine)
    return 0.9999 * np.asarray([[cosine, -sine], [sine, cosine]], "float32")


def rotated(*behind, dtype="float32"):
    """Vectors so short that the smaller products of a rotation vanish, made long again."""
    turn = SpectralDense(2, trainable=False, dtype=dtype)
    layers = [
        BoundedInput((2,), radius=1.0, dtype=dtype),
        K.Rescaling(TINY, dtype=dtype),
        turn,
        K.ReLU(dtype=dtype),
        K.Rescaling(HUGE, dtype=dtype),
        *behind,
    ]
    model = keras.Sequential(layers)
    turn.kernel.assign(rotation(0.575))
    return model


def separable(dtype="float32"):
    """The same inside one layer."""
    layer = K.SeparableConv1D(2, 1, use_bias=False, dtype=dtype)
    layer.trainable = False
    model = keras.Sequential([BoundedInput((1, 2), radius=1.0, dtype=dtype), layer])
    layer.depthwise_kernel.assign(np.full((1, 2, 1), TINY))
    layer.pointwise_kernel.assign(HUGE * rotation(0.575)[None])
    return model


def steps_of(model):
    return forward_steps(graph_of(model))


def test_norms_of_short_vectors_are_covered():
    model = rotated()
    found = np.linalg.norm(model.predict_on_batch(angles()), axis=1).max()
    relative = TINY * HUGE * (1.0 + 1e-4)
    assert relative < found <= steps_of(model)[-1].x_out


def test_a_gradient_near_underflow_is_refused_at_its_layer():
    with pytest.raises(UnboundedGradient, match="so small at the layer 'rescaling"):
        gradient_bounds(rotated(SpectralDense(2)), LOSS)


def test_so_is_a_cotangent():
    tiny = [CotangentClip(1e-25, name="narrow"), K.Rescaling(1e-10, name="short")]
    model = keras.Sequential(
        [BoundedInput((2,), radius=1.0), SpectralDense(2), *tiny[::-1], SpectralDense(2)]
    )
    with pytest.raises(UnboundedGradient, match="so small at the layer 'short'"):
        gradient_bounds(model, LOSS)


@pytest.mark.parametrize("make", [rotated, separable])
def test_the_error_of_short_vectors_is_covered(make):
    low, high = make(), make(dtype="float64")
    high.set_weights(low.get_weights())
    x = angles().reshape(-1, *low.input_shape[1:])
    gap = np.asarray(low.predict_on_batch(x), "float64") - high.predict_on_batch(x)
    found = np.linalg.norm(gap.reshape(len(x), -1), axis=1).max()
    assert 1e-2 < found <= numerical_error(low) + numerical_error(high)


def test_a_vanished_difference_is_not_certified():
    rescaled = [K.Rescaling(1e-37), K.ReLU(), K.Rescaling(1e37)]
    offset = K.Rescaling(1.0, offset=[0.0, 0.1])
    model = keras.Sequential([BoundedInput((2,), radius=4.0), *rescaled, offset, SpectralDense(2)])
    model.layers[-1].kernel.assign(0.999 * np.eye(2))
    found = certify(model, np.asarray([[0.1177, 0.0], [0.1174, 0.0]], "float32"))
    assert found.radii.max() == 0.0


def test_the_kernels_of_one_layer_multiply_what_was_lost_at_another():
    call = graph_of(separable()).calls[1]
    assert lost_by(call, 1.0) >= HUGE * 2.0**-110


def test_each_of_many_entries_may_lose_as_many_products():
    """``2 N^1.5 e``, multiplied by at most 8: as the proof says."""
    model = keras.Sequential([BoundedInput((64,), radius=1.0), SpectralDense(64)])
    call = graph_of(model).calls[1]
    assert lost_by(call, 1.0) >= 16.0 * 4096**1.5 * 2.0**-126


def test_what_a_loss_loses_is_in_the_bounds():
    """Beside so short a gradient it shows in float64, whose slacks are below 1e-11."""
    options = {"dtype": "float64"}
    layers = [BoundedInput((2,), radius=1.0, **options), SpectralDense(2, **options)]
    model = keras.Sequential([keras.Input((2,), **options), *layers])
    loss = ClippedLoss(MulticlassHinge(margin=0.5, **options), 1e-12, **options)
    (bound,) = gradient_bounds(model, loss).parameters
    assert 1e-9 < bound / 1e-12 - 1.0 < 1e-8


def test_squares_that_vanish_count():
    """Norms below 2^-50 are squared, so 100 entries of 2^-63.1 should make 2^-70.5."""
    side = 2.0**-63.1
    model = keras.Sequential([BoundedInput((100, 1), radius=11.0 * side), GlobalL2NormPooling()])
    computed = float(model.predict_on_batch(np.full((1, 100, 1), side, "float32"))[0, 0])
    exact = 100.0 * float(np.float32(side)) ** 2 * 0.5 * 2.0**50
    assert abs(computed - exact) <= numerical_error(model)


@pytest.mark.parametrize(
    ("factor", "known"), [(1e-30, True), (1e-37, False), ([0.5, 1e-40], False)]
)
def test_a_factor_in_front_of_the_ball_that_may_be_read_as_zero(factor, known):
    layers = [K.Rescaling(factor), BoundedInput((2,), radius=1.0), SpectralDense(2)]
    model = keras.Sequential([keras.Input((2,)), *layers])
    assert math.isfinite(numerical_error(model)) is known


@pytest.mark.parametrize("radius", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_usual_bounds_stay(radius):
    inputs = BoundedInput((32, 32, 3), radius=radius)
    layers = [K.Conv2D(64, 5, trainable=False), K.ReLU(), K.AveragePooling2D(2), K.Flatten()]
    model = keras.Sequential([inputs, *layers, SpectralDense(10)])
    x, g = radius, 1.0
    for step in steps_of(model):
        assert step.x_lost <= 1e-9 * step.x_out
        assert not is_mostly_lost(step.x_out, step.lost)
        assert step.pull(Cotangent(g))[0].bound <= step.jacobian * g * (1.0 + step.slack + 1e-9)
        x = step.x_out
    assert x > 0.0


def test_what_vanishes_for_sure_stays_zero():
    """No gradient passes ids, and nothing is left behind a factor 0."""
    table, none = BoundedEmbedding(5, 3), K.Rescaling(0.0)
    model = keras.Sequential([keras.Input((2,)), table, none, K.ReLU(), K.Flatten()])
    first, *others = steps_of(model)
    assert first.pull(Cotangent(1.0))[0].bound == 0.0
    assert [step.x_out for step in others] == [0.0, 0.0, 0.0]
    assert others[0].pull(Cotangent(1.0))[0].bound == 0.0
    assert first.parameter_bounds(0.0) == [0.0] and first.parameter_bounds(1.0)[0] > 1.0


def test_a_product_that_underflows_on_the_host_is_no_zero():
    def bound(x):
        return x * 1e-200 * 1e-200

    assert unless_zero(1.0, bound(1.0), lambda: bound(vast(1.0))) == 1.0
    assert unless_zero(1.0, bound(0.0), lambda: bound(vast(0.0))) == 0.0
