"""A frozen model as a layer: the same numbers, no gradient, and nothing that mixes rows."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import lipdp
from lipdp.bounds import gradient_bounds, lipschitz_constant
from lipdp.errors import InvalidValue, UnboundedGradient, UnsupportedLayer
from lipdp.layers import ActivationClip, BoundedInput, FrozenFeatures, SpectralDense
from lipdp.losses import TemperedCrossentropy


def convolutional():
    inputs = keras.Input((6, 6, 1))
    x = keras.layers.Conv2D(3, 3, activation="relu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dropout(0.5)(x)
    model = keras.Model(inputs, keras.layers.MaxPooling2D()(x))
    rng = np.random.default_rng(0)
    model.set_weights([np.abs(rng.normal(size=w.shape)) for w in model.get_weights()])
    return model


def images(count=5):
    return np.random.default_rng(1).normal(size=(count, 6, 6, 1)).astype("float32")


def with_head(layers):
    return lipdp.Sequential([BoundedInput((6, 6, 1), 50.0), *layers, SpectralDense(2)])


def test_it_computes_what_the_model_predicts():
    extractor = convolutional()
    expected = extractor.predict(images(), verbose=0).reshape(5, -1)
    layer = FrozenFeatures(extractor)
    for training in (False, True):
        np.testing.assert_allclose(layer(images(), training=training), expected, rtol=1e-6)
    assert layer.compute_output_shape((None, 6, 6, 1)) == (None, 12)
    wide = FrozenFeatures(extractor, dtype="float64")(images().astype("float64"))
    assert wide.dtype == "float64"
    np.testing.assert_allclose(wide, expected, rtol=1e-6)


def test_no_gradient_passes_and_nothing_trains():
    layer = FrozenFeatures(convolutional())
    x = tf.constant(images())
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(layer(x))
    assert tape.gradient(y, x) is None
    assert layer.trainable_variables == [] and len(layer.weights) == 6
    assert layer.backward_bound(1.0, 1.0) == 0.0 and layer.lipschitz(1.0) == np.inf


def test_what_follows_is_bounded_by_a_clip_and_refused_without():
    frozen = FrozenFeatures(convolutional())
    bounds = gradient_bounds(with_head([frozen, ActivationClip(2.0)]), TemperedCrossentropy(4.0))
    assert 0 < bounds.parameters[0] < 3.0
    with pytest.raises(UnboundedGradient):
        gradient_bounds(with_head([frozen]), TemperedCrossentropy(4.0))
    assert lipschitz_constant(with_head([frozen, ActivationClip(2.0)])) == np.inf


def test_training_leaves_it_as_it_was():
    frozen = FrozenFeatures(convolutional())
    before = [w.copy() for w in frozen.extractor.get_weights()]
    model = with_head([frozen, ActivationClip(2.0)])
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    model.compile(keras.optimizers.SGD(0.1), TemperedCrossentropy(4.0), privacy=budget)
    model.fit(images(40), np.arange(40) % 2, batch_size=8, epochs=1, verbose=0)
    for old, new in zip(before, frozen.extractor.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_it_is_saved_with_its_weights(tmp_path):
    model = keras.Sequential([keras.Input((6, 6, 1)), FrozenFeatures(convolutional())])
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(loaded(images()), model(images()))
    assert loaded.trainable_variables == []


def _centred(x):
    return x - ops.mean(x, axis=0, keepdims=True)


def _ranked(x):
    return ops.cast(x > ops.max(x, axis=0, keepdims=True) - 0.1, "float32")


@pytest.mark.parametrize("mix", [_centred, _ranked])
def test_models_that_mix_rows_are_refused(mix):
    inputs = keras.Input((4,))
    with pytest.raises(UnsupportedLayer, match="mixes"):
        FrozenFeatures(keras.Model(inputs, mix(inputs)))


class Noisy(keras.layers.Layer):
    def call(self, inputs):
        return inputs + keras.random.normal(ops.shape(inputs))


def test_models_that_are_random_are_refused():
    with pytest.raises(UnsupportedLayer, match="twice"):
        FrozenFeatures(keras.Sequential([keras.Input((4,)), Noisy()]))


def _unbuilt():
    return keras.Sequential([keras.layers.Dense(2)])


def _two_outputs():
    inputs = keras.Input((4,))
    return keras.Model(inputs, [inputs + 1.0, inputs + 2.0])


def _any_length():
    inputs = keras.Input((None, 3))
    return keras.Model(inputs, keras.layers.Dense(2)(inputs))


@pytest.mark.parametrize("make", [_unbuilt, _two_outputs, _any_length, lambda: "model.keras"])
def test_other_models_are_refused(make):
    with pytest.raises(InvalidValue, match="one input and one output"):
        FrozenFeatures(make())


def test_samples_of_another_shape_are_refused():
    with pytest.raises(InvalidValue, match="samples of shape"):
        FrozenFeatures(convolutional()).build((None, 7, 6, 1))
