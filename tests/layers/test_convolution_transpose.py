"""Transposed convolutions are the transposes of the convolutions over their outputs."""

import math
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.layers.convolution import (
    SpectralConv1DTranspose,
    SpectralConv2DTranspose,
    SpectralConv3DTranspose,
)

SCRIPT = Path(__file__).with_name("convolution_backend_checks.py")
dense, axes = (runpy.run_path(str(SCRIPT))[name] for name in ("dense", "axes"))

KINDS = {1: SpectralConv1DTranspose, 2: SpectralConv2DTranspose, 3: SpectralConv3DTranspose}
UNIT = 2.0**-53


@st.composite
def calls(draw):
    """(arguments, sample shape) along one or two axes."""
    rank = draw(st.integers(1, 2))
    k, s, n = ([draw(st.integers(1, 4 - rank)) for _ in range(rank)] for _ in range(3))
    channels, filters = (draw(st.integers(1, 2)) for _ in range(2))
    return (filters, k, s, draw(st.sampled_from(["same", "valid"]))), (*n, channels)


def make(call, seed):
    arguments, shape = call
    layer = KINDS[len(shape) - 1](*arguments, dtype="float64")
    layer.build((None, *shape))
    kernel = np.random.default_rng(seed).normal(size=layer.kernel.shape)
    layer.kernel.assign(layer.constraint(kernel))
    return layer


def matrix_of(layer, shape):
    size = int(np.prod(shape))
    outputs = layer(np.eye(size).reshape(size, *shape)).numpy()
    return outputs.reshape(size, -1).T, outputs.shape[1:]


@given(call=calls(), seed=st.integers(0, 9))
@example(call=((1, [4], [3], "same"), (2, 1)), seed=0)
@example(call=((1, [2], [3], "valid"), (2, 1)), seed=0)
def test_map_and_bounds(call, seed):
    layer, (_, k, s, padding) = make(call, seed), call[0]
    found, shape = matrix_of(layer, call[1])
    assert shape == layer.compute_output_shape((None, *call[1]))[1:]
    windows = axes(shape[:-1], k, s, 1, padding)
    kappa = math.prod(axis.coverage for axis in windows)
    expected = dense(windows, layer.kernel.numpy()).T / math.sqrt(kappa)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    slack = 1.0 + layer.rounding(UNIT)
    assert np.linalg.norm(found, 2) <= layer.lipschitz(1.0) * slack
    assert layer.lipschitz(1.0) <= layer.forward_bound(1.0) == layer.backward_bound(3.0, 1.0) == 1.0


@given(call=calls(), seed=st.integers(0, 9))
@example(call=((2, [2, 2], [2, 2], "same"), (2, 2, 2)), seed=1)
def test_kernel_gradients(call, seed):
    layer = make(call, seed)
    x = np.random.default_rng(seed).normal(size=call[1])
    slack = 1.0 + layer.rounding(UNIT)
    with tf.GradientTape(persistent=True) as tape:
        outputs = tf.unstack(tf.reshape(layer(x[None]), (-1,)))
    rows = [tape.gradient(y, layer.kernel.value).numpy().ravel() for y in outputs]
    bound = layer.parameter_bounds(float(np.linalg.norm(x)), 1.0)[0] * (1.0 + 2.0**-40)
    assert np.linalg.norm(rows, 2) <= bound * slack


def test_bounds_are_attained_without_overlap():
    layer = KINDS[2](3, 2, 2, dtype="float64")
    layer.build((None, 2, 3, 4))
    singular = np.linalg.svd(matrix_of(layer, (2, 3, 4))[0], compute_uv=False)
    np.testing.assert_allclose(singular, 1.0, rtol=1e-9)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_strides_make_the_norm_of_orthogonal_kernels_less(padding):
    layer = KINDS[2](4, 4, 2, padding, dtype="float64")
    layer.build((None, 7, 7, 8))
    kernel = np.random.default_rng(0).normal(size=layer.kernel.shape)
    u, _, v = np.linalg.svd(kernel.reshape(-1, 8), full_matrices=False)
    layer.kernel.assign((1.0 - 1e-12) * (u @ v).reshape(kernel.shape))
    norm = np.linalg.norm(matrix_of(layer, (7, 7, 8))[0], 2)
    # Of the kernel's matrix alone, and without strides, it is 1.
    assert 0.7 < norm <= layer.lipschitz(1.0) < min(0.85, 1.05 * norm)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_configurations_come_back(rank, padding):
    layer = KINDS[rank](2, 3, 2, padding)
    x = np.random.default_rng(0).normal(size=(2, *(4, 3, 2)[:rank], 3)).astype("float32")
    y = layer(x)
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(copy(x), y)
    assert layer.compute_output_shape(x.shape) == y.shape


def test_paddings_without_transpose_are_refused():
    with pytest.raises(InvalidValue, match="padding"):
        KINDS[2](2, 3, padding="circular")
