"""Layers that no longer do what they did when they were called, and nested models that grew."""

import math

import keras
import numpy as np
import pytest

from lipdp.bounds import gradient_bounds, lipschitz_constant, numerical_error
from lipdp.errors import UnsupportedLayer
from lipdp.layers import (
    BoundedBias,
    BoundedInput,
    MaxMin,
    ScaledGlobalAveragePooling,
    SpectralDense,
)
from lipdp.losses import MulticlassHinge

K = keras.layers
LOSS = MulticlassHinge(margin=1.0)
ROOT = math.sqrt(2)  # the constant of the loss
SIZE = 4


def bounds(model):
    return gradient_bounds(model, LOSS).parameters


def about(*exact):
    return pytest.approx(list(exact), rel=1e-4)


def joined(branches):
    """``branches`` makes a tensor of one in the ball."""
    inputs = keras.Input((SIZE,))
    return keras.Model(inputs, K.Flatten()(branches(BoundedInput((SIZE,), radius=1.0)(inputs))))


class TestNestedModelsThatChange:
    """Keras runs the present graph of a nested Sequential."""

    def model(self, shape=(5, 4)):
        inner = keras.Sequential([keras.Input(shape), BoundedBias(1.0)], name="inner")
        inputs = keras.Input((5, 4))
        x = inner(BoundedInput((5, 4), radius=2.0)(inputs))
        pooled = ScaledGlobalAveragePooling()(K.Reshape((-1, 4))(x))
        return inner, keras.Model(inputs, SpectralDense(2)(pooled))

    def test_one_that_makes_another_shape_is_refused(self):
        inner, model = self.model()
        inner.add(K.ZeroPadding1D(20))
        inner.add(BoundedBias(1.0))
        for proved in (bounds, lipschitz_constant, numerical_error):
            with pytest.raises(UnsupportedLayer, match="'inner' takes or makes other"):
                proved(model)

    def test_one_that_makes_another_dtype_is_refused(self):
        inner, model = self.model()
        inner.add(K.Activation("linear", dtype="float64"))
        with pytest.raises(UnsupportedLayer, match="'inner' takes or makes other"):
            bounds(model)

    def test_one_of_the_same_shape_is_bounded_as_it_is(self):
        inner, model = self.model()
        inner.add(K.Rescaling(3.0))
        assert bounds(model) == about(3 * ROOT * math.sqrt(5), 3 * ROOT * (2 + math.sqrt(5)))
        inner.pop()
        assert bounds(model) == about(ROOT * math.sqrt(5), ROOT * (2 + math.sqrt(5)))

    def test_an_axis_that_keras_adds_is_refused(self):
        _, model = self.model((5, 4, 1))
        with pytest.raises(UnsupportedLayer, match="'inner' takes or makes other"):
            bounds(model)


@pytest.mark.parametrize(
    ("layer", "name", "value"),
    [
        (K.ZeroPadding1D(), "padding", (20, 20)),
        (K.AveragePooling1D(2), "strides", (1,)),
        (K.RepeatVector(2), "n", 9),
    ],
)
def test_an_attribute_that_changed_the_shape_is_refused(layer, name, value):
    def branches(x):
        x = x if isinstance(layer, K.RepeatVector) else K.Reshape((SIZE, 1))(x)
        return SpectralDense(2)(ScaledGlobalAveragePooling()(BoundedBias(1.0)(layer(x))))

    model = joined(branches)
    assert len(bounds(model)) == 2
    setattr(layer, name, value)
    with pytest.raises(UnsupportedLayer, match="has changed"):
        bounds(model)


def between(x):
    """Of rank 2, before anything of rank 1."""
    return K.Reshape((1, SIZE))(x)


@pytest.mark.parametrize("merge", [K.Multiply, K.Add, K.Average, K.Subtract])
def test_a_shared_merge_that_would_mix_the_batch_is_refused(merge):
    """Keras decides at the first call whether samples get an axis in front."""
    shared, seen = merge(name="shared"), []

    def branches(x):
        seen.append(x)
        shared([x, MaxMin()(x)])
        seen.append(shared([x, between(x)]))
        return seen[-1]

    model = joined(branches)
    assert keras.Model(model.inputs[0], seen[-1])(np.ones((5, SIZE))).shape == (5, 5, SIZE)
    with pytest.raises(UnsupportedLayer, match="'shared'"):
        lipschitz_constant(model)


def test_products_of_different_ranks_keep_their_bound():
    shared = K.Multiply()

    def branches(x):
        first = shared([x, between(x)])
        return K.Concatenate()([first, between(shared([x, MaxMin()(x)]))])

    model = joined(branches)
    assert model(np.ones((5, SIZE))).shape == (5, 2 * SIZE)
    assert 0.0 < lipschitz_constant(model) < math.inf


def test_an_axis_that_changed_is_refused():
    layer = K.Concatenate(name="rows")
    model = joined(lambda x: layer([x, MaxMin()(x)]))
    layer.axis = 0
    with pytest.raises(UnsupportedLayer, match="'rows' has changed"):
        lipschitz_constant(model)
