"""Depthwise convolution, and separable convolution as its composition with one of one tap."""

import math
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.bounds.inference import lipschitz_constant
from lipdp.errors import InvalidValue
from lipdp.layers.convolution import SpectralConv2D, SpectralDepthwiseConv2D

SCRIPT = Path(__file__).with_name("convolution_backend_checks.py")
FUNCTIONS = runpy.run_path(str(SCRIPT))
axes, depthwise = FUNCTIONS["axes"], FUNCTIONS["depthwise"]

UNIT = 2.0**-53


def make(arguments, shape, seed=None):
    layer = SpectralDepthwiseConv2D(*arguments, dtype="float64")
    layer.build((None, *shape))
    if seed is not None:
        kernel = np.random.default_rng(seed).normal(size=layer.kernel.shape)
        layer.kernel.assign(layer.constraint(kernel))
    return layer


def matrix_of(layer, shape):
    size = int(np.prod(shape))
    return np.asarray(layer(np.eye(size).reshape(size, *shape))).reshape(size, -1).T


sizes = st.lists(st.integers(1, 3), min_size=2, max_size=2)


@given(
    k=sizes,
    n=sizes,
    channels=st.integers(1, 2),
    rest=st.tuples(st.integers(1, 2), st.integers(1, 2), st.sampled_from(["same", "valid"])),
    seed=st.integers(0, 9),
)
@example(k=[3, 3], n=[4, 4], channels=2, rest=(2, 1, "same"), seed=0)
def test_map_and_bounds(k, n, channels, rest, seed):
    multiplier, stride, padding = rest
    n = [max(a, b) for a, b in zip(n, k, strict=True)] if padding == "valid" else n
    layer = make((k, *rest), (*n, channels), seed)
    windows = axes(n, k, stride, 1, padding)
    kappa = math.prod(axis.coverage for axis in windows)
    found = matrix_of(layer, (*n, channels))
    expected = depthwise(windows)(layer.kernel.numpy()) / math.sqrt(kappa)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    assert layer.compute_output_shape((None, *n, channels))[-1] == channels * multiplier
    slack = 1.0 + layer.rounding(UNIT)
    assert np.linalg.norm(found, 2) <= layer.lipschitz(1.0) * slack
    assert layer.lipschitz(1.0) <= layer.backward_bound(3.0, 1.0) == layer.forward_bound(1.0) == 1.0


def test_every_channel_starts_on_its_sphere():
    """A kernel orthogonal as a whole would shrink each of C channels by the root of C."""
    kernel = np.asarray(make((3, 2), (4, 4, 64)).kernel)
    norms = np.sqrt(np.sum(kernel**2, axis=(0, 1, 3)))
    assert np.all(norms <= 1.0)
    assert np.all(norms > 1.0 - 1e-9)


def test_bounds_are_attained_without_overlap():
    layer = make((2, 1, 2), (4, 4, 3))
    singular = np.linalg.svd(matrix_of(layer, (4, 4, 3)), compute_uv=False)
    np.testing.assert_allclose(singular, 1.0, rtol=1e-9)
    assert layer.lipschitz(1.0) == pytest.approx(1.0, rel=1e-9)


def test_separable_convolution():
    layers = [SpectralDepthwiseConv2D(3, 2, dtype="float64"), SpectralConv2D(5, 1, dtype="float64")]
    model = keras.Sequential([keras.Input((4, 4, 3), dtype="float64"), *layers])
    norm = np.linalg.norm(matrix_of(model, (4, 4, 3)), 2)
    assert norm <= lipschitz_constant(model) <= 1.0
    point = layers[1].kernel.numpy().reshape(6, 5)
    assert np.linalg.norm(point, 2) == pytest.approx(layers[1].lipschitz(1.0), rel=1e-9)


def test_configuration_comes_back():
    layer = SpectralDepthwiseConv2D(3, 2, 2, "valid")
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 3)).astype("float32")
    y = layer(x)
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(copy(x), y)
    assert layer.compute_output_shape(x.shape) == y.shape


@pytest.mark.parametrize("arguments", [(3, 0), (0,), (3, 1, 1, "circular")])
def test_arguments_without_meaning_are_refused(arguments):
    with pytest.raises(InvalidValue):
        SpectralDepthwiseConv2D(*arguments)
