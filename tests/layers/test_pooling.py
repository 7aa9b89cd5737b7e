"""L2NormPooling, ScaledAveragePooling and their global forms."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.layers.pooling import (
    GlobalL2NormPooling,
    L2NormPooling1D,
    L2NormPooling2D,
    L2NormPooling3D,
    ScaledAveragePooling1D,
    ScaledAveragePooling2D,
    ScaledAveragePooling3D,
    ScaledGlobalAveragePooling,
)
from lipdp.layers.windows import Windows, coverage, padded_sum_norm, real_mean_norm
from lipdp.numerics import unit_roundoff

L2 = {1: L2NormPooling1D, 2: L2NormPooling2D, 3: L2NormPooling3D}
SCALED = {1: ScaledAveragePooling1D, 2: ScaledAveragePooling2D, 3: ScaledAveragePooling3D}


@st.composite
def geometries(draw):
    """(padding, sizes, pool_size, strides) of one to three axes."""
    padding, rank = draw(st.sampled_from(["valid", "same"])), draw(st.integers(1, 3))
    axes = [[draw(st.integers(1, n)) for n in (6 - rank, 3, 3)] for _ in range(rank)]
    if padding == "valid":
        axes = [[max(n, k), k, s] for n, k, s in axes]
    return padding, *zip(*axes, strict=True)


def patches(x, geometry):
    """Each window of zero-padded x, one row (window, taps, channels); by plain loops."""
    padding, sizes, pool, strides = geometry
    axes = [Windows(n, k, s, padding=padding) for n, k, s in zip(sizes, pool, strides, strict=True)]
    lefts = [axis.total_padding // 2 for axis in axes]
    padded = np.pad(
        x,
        [(a, b.total_padding - a + b.window) for a, b in zip(lefts, axes, strict=True)] + [(0, 0)],
    )
    corners = np.ndindex(*(axis.count for axis in axes))
    cuts = (
        tuple(slice(i * s, i * s + k) for i, s, k in zip(c, strides, pool, strict=True))
        for c in corners
    )
    return np.stack([padded[cut].reshape(-1, x.shape[-1]) for cut in cuts])


def make(family, geometry, dtype="float64"):
    padding, sizes, pool, strides = geometry
    layer = family[len(sizes)](pool, strides, padding, dtype=dtype)
    layer.build((None, *sizes, 2))
    return layer


def vjp(layer, rows, cotangents):
    rows, cotangents = tf.constant(rows), tf.constant(cotangents)
    with tf.GradientTape() as tape:
        tape.watch(rows)
        outputs = layer(rows)
    shaped = tf.reshape(tf.cast(cotangents, outputs.dtype), tf.shape(outputs))
    return outputs.numpy(), tape.gradient(outputs, rows, output_gradients=shaped).numpy()


def jacobian(layer, x):
    outputs = int(np.prod(layer(x[None]).shape))
    rows = np.repeat(x[None], outputs, axis=0)
    return vjp(layer, rows, np.eye(outputs, dtype=x.dtype))[1].reshape(outputs, -1)


def points(shape, seed):
    rng = np.random.default_rng(seed)
    return [
        np.zeros(shape),
        np.ones(shape),
        rng.normal(size=shape) * rng.integers(0, 2, shape),
        rng.normal(size=shape),
        1e-100 * rng.normal(size=shape),
    ]


HOST = 1.0 + 2.0**-40


@given(geometry=geometries(), seed=st.integers(0, 9))
@example(geometry=("same", (3, 3), (2, 2), (2, 2)), seed=0)
@example(geometry=("same", (4, 4), (3, 3), (1, 1)), seed=0)
@example(geometry=("same", (1, 2), (3, 3), (2, 1)), seed=0)
def test_l2_norms_and_their_derivative(geometry, seed):
    layer = make(L2, geometry)
    slack = HOST * (1.0 + layer.rounding(2.0**-53))
    for x in points((*geometry[1], 2), seed):
        norm = float(np.linalg.norm(x))
        y = layer(x[None]).numpy()[0]
        expected = np.linalg.norm(patches(x, geometry), axis=1)
        np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-12, atol=0.0)
        assert np.linalg.norm(y) <= layer.forward_bound(norm) * slack
        assert np.linalg.norm(jacobian(layer, x), 2) <= layer.backward_bound(norm, 1.0) * slack


def test_bound_of_l2_norms_is_attained_where_windows_overlap():
    layer = make(L2, ("same", (3, 3), (3, 3), (1, 1)))
    x = np.zeros((3, 3, 2))
    x[1, 1, 0] = 5.0
    assert layer.backward_bound(5.0, 1.0) == layer.lipschitz(5.0) == 3.0
    assert np.linalg.norm(jacobian(layer, x), 2) == pytest.approx(3.0, rel=1e-14)
    assert np.linalg.norm(layer(x[None])) == pytest.approx(layer.forward_bound(5.0), rel=1e-14)


def test_windows_that_do_not_overlap_keep_the_norm():
    layer = make(L2, ("valid", (4, 4), (2, 2), (2, 2)))
    x = np.random.default_rng(0).normal(size=(4, 4, 2))
    assert layer.forward_bound(7.0) == 7.0
    assert np.linalg.norm(layer(x[None])) == pytest.approx(np.linalg.norm(x), rel=1e-14)


@pytest.mark.parametrize(
    "layer", [L2NormPooling2D(2), L2NormPooling2D(3, 1, "same"), GlobalL2NormPooling()]
)
@pytest.mark.parametrize("exponent", [*range(-149, 60, 6), -62, -63, -64, -51, -50, -49, 58])
def test_every_magnitude_of_float32(layer, exponent):
    """Squares that are lost must not make the derivative too long."""
    rng = np.random.default_rng(exponent + 200)
    x = rng.uniform(0.3, 1.0, size=(8, 4, 4, 2)) * 2.0 ** (exponent - 4)
    mixed = x * 2.0 ** rng.integers(-6, 7, size=x.shape)
    for rows in (x.astype("float32"), mixed.astype("float32")):
        outputs = layer(rows).numpy().astype("float64")
        flat = outputs.reshape(8, -1)
        for cotangents in (rng.normal(size=flat.shape), flat / max(flat.max(), 1e-30)):
            u = (2.0**20 * cotangents).astype("float32")
            gradients = vjp(layer, rows, u)[1].astype("float64")
            slack = HOST * (1.0 + layer.rounding(unit_roundoff("float32")))
            for row, y, cotangent, gradient in zip(rows, flat, u, gradients, strict=True):
                norm = float(np.linalg.norm(row.astype("float64")))
                size = float(np.linalg.norm(cotangent.astype("float64")))
                assert np.linalg.norm(y) <= layer.forward_bound(norm) * slack
                assert np.linalg.norm(gradient) <= layer.backward_bound(norm, size) * slack


def test_a_root_without_care_would_break_the_bound():
    """Where squares underflow the plain quotient ``x / r`` is longer than 1."""
    x = np.full((1, 4), 2.5e-23, "float32")  # each square just below half of the least float
    x[0, 0] = 2.7e-23
    plain = keras.layers.Lambda(lambda t: tf.sqrt(tf.reduce_sum(t * t, axis=-1)))
    with np.errstate(all="ignore"):
        slope = np.linalg.norm(vjp(plain, x, np.ones(1, "float32"))[1])
    assert not slope <= 1.0 + 1e-3
    pooled = vjp(L2NormPooling1D(4), x[..., None], np.ones((1, 1, 1), "float32"))[1]
    assert np.linalg.norm(pooled) <= 1.0


def test_nothing_is_stated_of_the_derivative_where_squares_overflow():
    for layer in (make(L2, ("valid", (2,), (2,), (2,))), GlobalL2NormPooling()):
        layer.build((None, 2, 2))
        assert layer.backward_bound(math.inf, 1.0) == math.inf
        assert layer.forward_bound(math.inf) == math.inf
        assert layer.lipschitz(math.inf) == 1.0


@given(geometry=geometries(), seed=st.integers(0, 9))
@example(geometry=("same", (3, 3), (2, 2), (2, 2)), seed=0)
@example(geometry=("same", (2,), (3,), (1,)), seed=0)
def test_scaled_averages_are_exactly_1_lipschitz(geometry, seed):
    layer = make(SCALED, geometry)
    x = points((*geometry[1], 2), seed)[3]
    norm = float(np.linalg.norm(jacobian(layer, x), 2))
    assert 1.0 - 1e-12 < norm <= HOST * (1.0 + layer.rounding(2.0**-53))
    sums = patches(x, geometry).sum(axis=1)
    y = layer(x[None]).numpy().reshape(sums.shape)
    factor = np.vdot(y, sums) / np.vdot(sums, sums)
    np.testing.assert_allclose(y, factor * sums, rtol=1e-12, atol=1e-14)


def test_scaled_average_without_overlap_is_the_root_of_k_times_the_mean():
    x = np.random.default_rng(0).normal(size=(1, 4, 6, 2))
    mean = x.reshape(1, 2, 2, 2, 3, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(ScaledAveragePooling2D((2, 3), dtype="float64")(x), 6**0.5 * mean)


@given(
    n=st.integers(1, 7),
    k=st.integers(1, 4),
    s=st.integers(1, 4),
    padding=st.sampled_from(["valid", "same"]),
)
def test_axis_norms_are_upper_bounds_and_tight(n, k, s, padding):
    axis = Windows(max(n, k), k, s, padding=padding)
    matrix = np.zeros((axis.count, axis.size))
    for row, read in zip(matrix, axis.readings(axis.total_padding // 2), strict=True):
        row[read[read >= 0]] = 1.0
    sums = np.linalg.norm(matrix, 2)
    means = np.linalg.norm(matrix / matrix.sum(axis=1, keepdims=True), 2)
    for bound, exact in ((padded_sum_norm([axis]), sums), (real_mean_norm([axis]), means)):
        assert exact * (1.0 - 1e-14) <= bound <= exact * (1.0 + 1e-12)


def test_long_axes_have_a_cheap_bound():
    axis = Windows(100_000, 3, 1)
    assert padded_sum_norm([axis]) == pytest.approx(3.0)
    assert coverage([axis]) == 3


@given(shape=st.lists(st.integers(1, 3), min_size=1, max_size=3), seed=st.integers(0, 9))
def test_global_poolings(shape, seed):
    for x in points((*shape, 2), seed):
        axes = tuple(range(len(shape)))
        root, scaled = (
            GlobalL2NormPooling(dtype="float64"),
            ScaledGlobalAveragePooling(dtype="float64"),
        )
        np.testing.assert_allclose(
            root(x[None])[0], np.linalg.norm(x.reshape(-1, 2), axis=0), rtol=1e-12
        )
        expected = x.sum(axis=axes) / np.sqrt(np.prod(shape))
        np.testing.assert_allclose(scaled(x[None])[0], expected, rtol=1e-12, atol=1e-14)
        for layer in (root, scaled):
            assert np.linalg.norm(jacobian(layer, x), 2) <= HOST * (1 + layer.rounding(2.0**-53))
        assert np.linalg.norm(jacobian(scaled, x), 2) > 1.0 - 1e-12


@pytest.mark.parametrize("family", [L2, SCALED])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_configurations_come_back(family, rank):
    layer = family[rank](3, 2, "same")
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    x = np.random.default_rng(rank).normal(size=(2, *(5, 4, 6)[:rank], 2)).astype("float32")
    np.testing.assert_array_equal(copy(x), layer(x))
    assert layer.compute_output_shape(x.shape) == layer(x).shape
    model = keras.Sequential([keras.Input(x.shape[1:]), family[rank](2)])
    assert model.output_shape == (None, *(n // 2 for n in x.shape[1:-1]), 2)


@pytest.mark.parametrize(
    "arguments", [{"pool_size": 0}, {"pool_size": (2, 2, 2)}, {"strides": 1.5}, {"padding": "full"}]
)
def test_arguments_without_meaning_are_refused(arguments):
    with pytest.raises(InvalidValue):
        L2NormPooling2D(**arguments)


def test_shapes_that_do_not_fit_are_refused():
    for layer, shape in (
        (L2NormPooling2D(2), (None, 4, 2)),
        (L2NormPooling2D(5), (None, 4, 4, 2)),
        (GlobalL2NormPooling(), (None, 4)),
    ):
        with pytest.raises(InvalidValue):
            layer.build(shape)
