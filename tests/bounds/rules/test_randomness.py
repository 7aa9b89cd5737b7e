"""Layers that draw random numbers: exact masks, rows left alone, nothing in inference."""

import math

import keras
import numpy as np
import pytest

from lipdp.bounds.rules import bounds_of
from lipdp.bounds.rules.base import Shapes
from lipdp.bounds.rules.structure import RULES
from lipdp.errors import UnsupportedLayer

L = keras.layers
IMAGE = (6, 5, 3)
DROPOUTS = [
    (L.Dropout, (4, 3)),
    (L.SpatialDropout1D, (4, 3)),
    (L.SpatialDropout2D, (4, 3, 2)),
    (L.SpatialDropout3D, (2, 4, 3, 2)),
]
AUGMENTATIONS = {
    "flip": L.RandomFlip,
    "brightness": lambda: L.RandomBrightness(0.3, value_range=(0, 1), seed=1),
    "contrast": lambda: L.RandomContrast(0.3, value_range=(0, 1), seed=1),
    "erasing": lambda: L.RandomErasing(factor=1.0, value_range=(0, 1), seed=1),
    "rotation": lambda: L.RandomRotation(0.3, seed=1),
    "shear": lambda: L.RandomShear(0.3, 0.3, seed=1),
    "translation": lambda: L.RandomTranslation(0.3, 0.3, fill_mode="wrap", seed=1),
    "zoom": lambda: L.RandomZoom(0.4, fill_mode="nearest", seed=1),
}


def rule_of(layer, sample, output=None):
    return RULES[type(layer)](layer, Shapes((sample,), output or sample))


def replayed(layer, batches):
    """Outputs in training mode, each time from the same random state."""
    state = [(v, keras.ops.convert_to_numpy(v.value)) for v in layer.non_trainable_variables]
    for batch in batches:
        for variable, value in state:
            variable.assign(value)
        yield np.asarray(layer(batch.astype("float32"), training=True))


@pytest.mark.parametrize(("kind", "sample"), DROPOUTS)
@pytest.mark.parametrize("rate", [0.0, 1e-3, 0.5, 0.9, 0.999])
def test_kept_entries_are_divided_by_the_share_that_is_kept(kind, sample, rate):
    layer = kind(rate)
    x = np.random.default_rng(0).normal(size=(8, *sample)).astype("float32")
    y = np.asarray(layer(x, training=True), "float64")
    kept, gain = y != 0, rule_of(layer, sample).backward_bound(1.0, 1.0)
    np.testing.assert_allclose(y[kept], (x.astype("float64") * gain)[kept], rtol=1e-6)
    slack = 1.0 + rule_of(layer, sample).rounding(2.0**-24)
    assert np.all(np.abs(y) <= np.abs(x.astype("float64")) * gain * slack)
    np.testing.assert_array_equal(layer(x, training=False), x)
    assert rule_of(layer, sample).lipschitz(1.0) == 1.0


@pytest.mark.parametrize(("kind", "sample"), DROPOUTS)
@pytest.mark.parametrize("rate", [1.0, -3.0, 1.5, math.nan])
def test_rates_that_are_no_share_are_refused(kind, sample, rate):
    """At 1 nothing is left in training, but inference is the identity."""
    layer = kind(0.5)
    layer.rate = rate
    with pytest.raises(UnsupportedLayer, match="rate"):
        rule_of(layer, sample)


@pytest.mark.parametrize("noise_shape", [None, (None, 1, 3), (None, None, 3), (1, 5, 3), (1, 1, 1)])
def test_masks_that_are_shared(noise_shape):
    layer = L.Dropout(0.5, noise_shape=noise_shape)
    assert layer(np.ones((2, 5, 3), "float32"), training=True).shape == (2, 5, 3)
    assert rule_of(layer, (5, 3)).backward_bound(1.0, 1.0) == 2.0


@pytest.mark.parametrize("noise_shape", [(None, 9, 4), (9, 1, 4), (1, 4), (None, 1, 1, 4), ()])
def test_masks_that_are_larger_than_a_sample_are_refused(noise_shape):
    """The first one makes (n, 9, 4) of (n, 1, 4) in training."""
    with pytest.raises(UnsupportedLayer, match="noise_shape"):
        rule_of(L.Dropout(0.01, noise_shape=noise_shape), (1, 4))


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_each_image_is_transformed_on_its_own(name):
    rng = np.random.default_rng(0)
    layer = AUGMENTATIONS[name]()
    x, other = rng.uniform(size=(2, 4, *IMAGE))
    changed = [
        np.where(np.arange(4)[:, None, None, None] == 1, x, v) for v in (other, 1e15, np.nan)
    ]
    first, *rest = replayed(layer, [x, *changed])
    assert not np.array_equal(first, x.astype("float32"))
    for outputs in rest:
        np.testing.assert_array_equal(outputs[1], first[1])


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_in_inference_they_do_nothing(name):
    layer = AUGMENTATIONS[name]()
    x = 3.0 * np.random.default_rng(0).normal(size=(4, *IMAGE)).astype("float32")
    np.testing.assert_array_equal(layer(x, training=False), x)
    rule = rule_of(layer, IMAGE)
    assert rule.lipschitz(math.inf) == 1.0
    assert rule.backward_bound(1.0, 1.0) == (1.0 if name == "flip" else math.inf)
    assert rule.forward_bound(2.0) == (2.0 if name == "flip" else math.inf)


def test_flips_are_permutations():
    x = np.random.default_rng(0).normal(size=(8, *IMAGE)).astype("float32")
    y = np.asarray(L.RandomFlip()(x, training=True))
    np.testing.assert_array_equal(np.sort(x.reshape(8, -1)), np.sort(y.reshape(8, -1)))


@pytest.mark.parametrize("sample", [(6, 5), (2, 6, 5, 3)])
def test_records_that_keras_would_take_for_one_image_are_refused(sample):
    with pytest.raises(UnsupportedLayer, match="one image"):
        rule_of(L.RandomFlip(), sample)


def test_channels_first_is_refused():
    with pytest.raises(UnsupportedLayer, match="channels_last"):
        rule_of(L.RandomRotation(0.1, data_format="channels_first"), IMAGE)


@pytest.mark.parametrize(
    ("make", "cure"),
    [
        (L.MixUp, "several gradients"),
        (L.CutMix, "several gradients"),
        (L.AugMix, "whole batch"),
        (L.RandAugment, "whole batch"),
        (L.Equalization, "whole batch"),
        (lambda: L.RandomCrop(3, 3), "inference"),
        (lambda: L.GaussianNoise(0.1), "no bound"),
        (lambda: L.GaussianDropout(0.1), "no bound"),
        (lambda: L.AlphaDropout(0.1), "Dropout"),
    ],
)
def test_layers_that_mix_records_or_have_no_bound_are_refused(make, cure):
    with pytest.raises(UnsupportedLayer, match=cure):
        bounds_of(make(), Shapes((IMAGE,), IMAGE))


def test_equalization_does_mix_records():
    """Why AugMix and RandAugment, which may equalize, are refused."""
    x, other = np.random.default_rng(0).integers(0, 256, (2, 4, 16, 16, 3)).astype("float32")
    changed = np.where(np.arange(4)[:, None, None, None] == 1, x, 0.1 * other)
    layer = L.Equalization()
    first, second = layer(x, training=True), layer(changed, training=True)
    assert not np.array_equal(first[1], second[1])
