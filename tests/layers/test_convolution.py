"""Convolutions with near-orthogonal kernels against dense matrices."""

import math
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.layers.convolution import ConvGeometry, SpectralConv1D, SpectralConv2D, SpectralConv3D
from lipdp.layers.windows import PADDINGS, Windows
from lipdp.numerics import gamma
from lipdp.projections import circular_norm_bound

SCRIPT = Path(__file__).with_name("convolution_backend_checks.py")
dense, axes = (runpy.run_path(str(SCRIPT))[name] for name in ("dense", "axes"))

KINDS = {1: SpectralConv1D, 2: SpectralConv2D, 3: SpectralConv3D}
UNIT = 2.0**-53


@st.composite
def calls(draw, most_groups=2):
    """(arguments, sample shape) of a convolution along one or two axes."""
    rank, groups = draw(st.integers(1, 2)), draw(st.integers(1, most_groups))
    paddings = ["same", "valid", "circular"] + (["causal"] if rank == 1 else [])
    padding = draw(st.sampled_from(paddings))
    # TensorFlow has no strides together with dilation.
    s, d = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (1, 2)]))
    k = [draw(st.integers(1, 3)) for _ in range(rank)]
    n = [draw(st.integers(1, 6 - rank)) for _ in range(rank)]
    if padding == "valid":
        n = [max(a, (b - 1) * d + 1) for a, b in zip(n, k, strict=True)]
    channels, filters = (groups * draw(st.integers(1, 2)) for _ in range(2))
    return (filters, k, s, padding, d, groups), (*n, channels)


def make(call, seed=None):
    """The layer with a random kernel of its set; orthogonal, as it starts, without a seed."""
    arguments, shape = call
    layer = KINDS[len(shape) - 1](*arguments, dtype="float64")
    layer.build((None, *shape))
    if seed is not None:
        kernel = np.random.default_rng(seed).normal(size=layer.kernel.shape)
        layer.kernel.assign(layer.constraint(kernel))
    return layer


def matrix_of(layer, shape):
    size = int(np.prod(shape))
    return layer(np.eye(size).reshape(size, *shape)).numpy().reshape(size, -1).T


def kernel_jacobian(layer, x):
    """One row for each output, by automatic differentiation."""
    with tf.GradientTape(persistent=True) as tape:
        outputs = tf.unstack(tf.reshape(layer(x[None]), (-1,)))
    return np.stack([tape.gradient(y, layer.kernel.value).numpy().ravel() for y in outputs])


@given(call=calls(), seed=st.integers(0, 9))
@example(call=((3, 3, 1, "circular", 1, 1), (2, 1)), seed=0)
@example(call=((9, 3, 1, "same", 1, 1), (4, 4, 1)), seed=0)
def test_map_and_bounds(call, seed):
    layer, shape = make(call, seed), call[1]
    padding, groups = call[0][3], call[0][5]
    windows = axes(shape[:-1], layer.kernel_size, layer.strides, layer.dilation_rate, padding)
    kappa = math.prod(axis.coverage for axis in windows)
    expected = dense(windows, layer.kernel.numpy(), groups) / math.sqrt(kappa)
    found = matrix_of(layer, shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    slack = 1.0 + layer.rounding(UNIT)
    norm = np.linalg.norm(found, 2)
    assert norm <= layer.lipschitz(1.0) * slack
    assert layer.lipschitz(1.0) <= 1.0
    assert layer.backward_bound(7.0, 1.0) == layer.forward_bound(1.0) == 1.0


# TensorFlow compiles grouped convolutions anew at each call: one of them is enough.
@settings(max_examples=15)
@given(call=calls(most_groups=1), seed=st.integers(0, 9))
@example(call=((2, 3, 1, "circular", 1, 1), (2, 2)), seed=0)
@example(call=((2, 2, 1, "valid", 1, 2), (3, 2)), seed=0)
def test_kernel_gradients(call, seed):
    layer, shape = make(call, seed), call[1]
    x = np.ones(shape) if seed % 2 else np.random.default_rng(seed).normal(size=shape)
    steepest = np.linalg.norm(kernel_jacobian(layer, x), 2)
    bound = layer.parameter_bounds(float(np.linalg.norm(x)), 1.0)[0]
    assert steepest <= bound * (1.0 + layer.rounding(UNIT)) * (1.0 + 2.0**-40)


def test_bounds_are_attained_without_overlap():
    layer = make(((8, 2, 2, "valid", 1, 1), (4, 4, 2)))
    singular = np.linalg.svd(matrix_of(layer, (4, 4, 2)), compute_uv=False)
    np.testing.assert_allclose(singular, 1.0, rtol=1e-9)
    x = np.tile(np.random.default_rng(0).normal(size=(2, 2, 2)), (2, 2, 1))
    steepest = np.linalg.norm(kernel_jacobian(layer, x), 2)
    assert steepest == pytest.approx(layer.parameter_bounds(np.linalg.norm(x), 1.0)[0], rel=1e-12)


def test_bound_is_attained_by_a_window_wider_than_its_circle():
    """A root of the number of windows, 2, instead of 3 would give 1.2247."""
    layer = make(((3, 3, 1, "circular", 1, 1), (2, 1)))
    assert np.linalg.norm(matrix_of(layer, (2, 1)), 2) == pytest.approx(1.0, rel=1e-9)


def test_average_coverage_would_be_unsound():
    """Divided by the root of the patches that hold an average position, it grows norms."""
    layer = make(((9, 3, 1, "same", 1, 1), (4, 4, 1)))
    average = math.sqrt(16 / (10 * 10))
    reached = 3.0 * average * np.linalg.norm(matrix_of(layer, (4, 4, 1)), 2)
    assert reached == pytest.approx(1.2, rel=1e-9)


ONES = np.ones((3, 3, 1, 1))


@pytest.mark.parametrize(
    ("padding", "stride", "true", "counting", "fourier"),
    [("circular", 1, 9.0, 9.0, 9.0), ("same", 1, 8.2909, 9.0, 9.0), ("same", 2, 4.5321, 6.0, 5.0)],
)
def test_kernel_of_ones(padding, stride, true, counting, fourier):
    windows = axes((8, 8), 3, stride, 1, padding)
    geometry = ConvGeometry(tuple(windows))
    assert np.linalg.norm(dense(windows, ONES), 2) == pytest.approx(true, abs=1e-4)
    assert geometry.counting_norm(ONES) == pytest.approx(counting, rel=1e-9)
    assert geometry.fourier_norm(ONES) == pytest.approx(fourier, rel=1e-9)
    assert geometry.norm(ONES) == pytest.approx(min(counting, fourier), rel=1e-9)


@st.composite
def geometries(draw):
    """(windows, groups) with a stride and a dilation of each axis, along one to three axes."""
    rank, groups = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    padding = draw(st.sampled_from(PADDINGS))
    windows = []
    for _ in range(rank):
        n, k, s, d = (draw(st.integers(1, most)) for most in (7 - 2 * rank, 4, 4, 3))
        k = min(k, 4 - rank) if rank > 1 else k
        n = max(n, (k - 1) * d + 1) if padding == "valid" else n
        windows.append(Windows(n, k, s, d, padding))
    return tuple(windows), groups


def kernels(shape, seed):
    """Random, of signs, of ones, of one tap, and one that changes sign from tap to tap."""
    rng = np.random.default_rng(seed)
    normal, taps = rng.normal(size=shape), shape[:-2]
    single = np.zeros(shape)
    single[tuple(rng.integers(k) for k in taps)] = normal[(0,) * len(taps)]
    signs = (-1.0) ** np.sum(np.indices(taps), axis=0)
    alternating = signs[..., None, None] * np.abs(normal)
    return [normal, np.sign(normal), np.ones(shape), single, alternating]


def without_strides(geometry, kernel):
    """The smaller of the bound by counting and that of the circular convolution of stride 1."""
    windows = geometry.windows
    torus = [w.size + (0 if w.padding == "circular" else w.total_padding) for w in windows]
    counting = geometry.counting_norm(kernel)
    if any(w.reach > n for w, n in zip(windows, torus, strict=True)):
        return counting
    dilation = [w.dilation for w in windows]
    whole = circular_norm_bound(kernel, torus, dilation=dilation, groups=geometry.groups)
    return min(counting, whole)


@settings(max_examples=60)
@given(geometry=geometries(), channels=st.tuples(*[st.integers(1, 2)] * 2), seed=st.integers(0, 9))
@example(geometry=((Windows(1, 3, 1, padding="same"),), 1), channels=(1, 1), seed=0)
@example(geometry=((Windows(4, 3, 3, padding="same"),), 1), channels=(1, 1), seed=0)
@example(geometry=((Windows(2, 4, 2, padding="same"),), 1), channels=(1, 2), seed=0)
@example(geometry=((Windows(7, 2, 5, padding="same"),), 1), channels=(2, 1), seed=0)
@example(geometry=((Windows(5, 4, 2, 2, "same"),), 1), channels=(1, 1), seed=0)
@example(geometry=((Windows(5, 3, 2, 3, "causal"),), 1), channels=(1, 1), seed=0)
@example(geometry=((Windows(9, 3, 3, 2, "valid"),), 2), channels=(2, 1), seed=0)
@example(geometry=((Windows(6, 3, 2, padding="circular"),), 1), channels=(1, 1), seed=0)
@example(geometry=((Windows(7, 3, 2, padding="circular"),), 1), channels=(1, 1), seed=0)
@example(geometry=((Windows(6, 3, 4, padding="circular"),), 1), channels=(1, 1), seed=0)
@example(geometry=((Windows(2, 4, 2, padding="circular"),), 1), channels=(1, 1), seed=0)
@example(
    geometry=((Windows(4, 3, 2, padding="same"), Windows(5, 3, 3, padding="same")), 1),
    channels=(1, 1),
    seed=0,
)
def test_norms_of_a_geometry_are_bounds(geometry, channels, seed):
    windows, groups = geometry
    geometry = ConvGeometry(windows, groups)
    shape = (*(w.window for w in windows), channels[0], channels[1] * groups)
    for kernel in kernels(shape, seed):
        exact = np.linalg.norm(dense(windows, kernel, groups), 2) * (1.0 - 1e-13)
        assert exact <= geometry.counting_norm(kernel)
        assert exact <= geometry.fourier_norm(kernel)
        assert geometry.norm(kernel) <= without_strides(geometry, kernel)
        assert geometry.counting_norm(kernel) <= geometry.absolute_norm(kernel)


@pytest.mark.parametrize("padding", ["same", "valid", "causal", "circular"])
@pytest.mark.parametrize(("k", "s", "d"), [(5, 2, 1), (3, 2, 1), (4, 3, 1), (3, 5, 1), (4, 2, 3)])
def test_bound_is_nearly_attained_on_a_long_axis(padding, k, s, d):
    windows = (Windows(60, k, s, d, padding),)
    for kernel in kernels((k, 1, 2), 0):
        exact = np.linalg.norm(dense(windows, kernel), 2)
        # Zeros around make the norm less by about the square of (reach / axis).
        assert ConvGeometry(windows).norm(kernel) <= exact * 1.02


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("k", "shape", "filters", "whole", "strided"),
    [(5, (16, 16, 3), 8, 0.82, 0.62), (3, (16, 16, 3), 8, 0.99, 0.87)],
)
def test_strides_make_the_norm_of_orthogonal_kernels_less(seed, k, shape, filters, whole, strided):
    layer = SpectralConv2D(filters, k, 2)
    layer.build((None, *shape))
    kernel = np.random.default_rng(seed).normal(size=layer.kernel.shape)
    u, _, v = np.linalg.svd(kernel.reshape(-1, filters), full_matrices=False)
    layer.kernel.assign((1.0 - 1e-6) * (u @ v).reshape(kernel.shape))
    values = layer.kernel.numpy().astype("float64")
    assert without_strides(layer._geometry, values) / math.sqrt(layer._geometry.kappa) > whole
    assert layer.lipschitz(1.0) < strided


def test_every_split_of_the_padding_is_inside_the_fourier_bound():
    axis = Windows(5, 4, 2, padding="same")
    kernel = np.random.default_rng(0).normal(size=(4, 2, 2))
    bound = ConvGeometry((axis,)).fourier_norm(kernel)
    for table in axis.layouts():
        matrix = np.zeros((axis.count, 2, 5, 2))
        for (o, t), position in np.ndenumerate(table):
            if position >= 0:
                matrix[o, :, position] += kernel[t].T
        assert np.linalg.norm(matrix.reshape(-1, 10), 2) <= bound


@given(n=st.integers(1, 9), k=st.integers(1, 6), s=st.integers(1, 4), seed=st.integers(0, 9))
@example(
    n=5, k=5, s=2, seed=0
)  # Some releases of Keras put 2 of 3 in front, transposed on PyTorch.
def test_the_larger_half_of_the_padding_may_be_in_front(n, k, s, seed):
    axis = Windows(n, k, s, padding="same")
    for kernel in kernels((k, 1, 2), seed):
        bound = ConvGeometry((axis,)).fourier_norm(kernel)
        for left in (axis.total_padding // 2, -(-axis.total_padding // 2)):
            matrix = np.zeros((axis.count, 2, n, 1))
            for (o, t), position in np.ndenumerate(axis.readings(left)):
                if position >= 0:
                    matrix[o, :, position] += kernel[t].T
            norm = np.linalg.norm(matrix.reshape(-1, n), 2)
            assert norm * (1.0 - 1e-13) <= bound


def test_large_convolutions_have_the_simple_bound_only():
    kernel = np.ones((3, 3, 64, 64))
    for stride, kappa in ((1, 9), (2, 4)):
        geometry = ConvGeometry((Windows(1000, 3, stride, padding="same"),) * 2)
        assert geometry.fourier_norm(kernel) == math.inf
        simple = math.sqrt(kappa) * np.linalg.norm(kernel)
        assert geometry.norm(kernel) == pytest.approx(simple, rel=1e-9)


def test_frozen_kernels_have_their_own_norm_and_slack():
    """A Barker sequence: its spectrum is flat, the sum of its absolute values is not."""
    code = np.array([1, 1, 1, 1, 1, -1, -1, 1, 1, -1, 1, -1, 1.0]) / math.sqrt(13.0)
    layer = SpectralConv1D(1, 13, dtype="float64")
    layer.build((None, 40, 1))
    layer.kernel.assign(code.reshape(13, 1, 1))
    assert layer.backward_bound(1.0, 1.0) == pytest.approx(1.0, rel=1e-12)
    assert layer.lipschitz(1.0) < 0.5
    layer.trainable = False
    assert layer.backward_bound(1.0, 1.0) == layer.forward_bound(1.0) == layer.lipschitz(1.0)
    assert layer.parameter_bounds(1.0, 1.0) == []
    absolute = np.linalg.norm(dense(axes((40,), 13), np.abs(code).reshape(13, 1, 1)), 2) / 13**0.5
    assert absolute > layer.lipschitz(1.0)
    assert layer.rounding(UNIT) * layer.lipschitz(1.0) >= gamma(13, UNIT) * absolute


def test_a_kernel_outside_its_set_counts_as_it_is():
    layer = make(((2, 2, 1, "same", 1, 1), (3, 3, 2)))
    layer.kernel.assign(2.0 * layer.kernel)
    assert layer.backward_bound(1.0, 1.0) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("padding", ["same", "valid", "circular", "causal"])
def test_configurations_come_back(rank, padding):
    if padding not in KINDS[rank].paddings:
        with pytest.raises(InvalidValue, match="padding"):
            KINDS[rank](2, 2, padding=padding)
        return
    layer = KINDS[rank](4, 2, 1, padding, 2, 2)
    x = np.random.default_rng(0).normal(size=(2, *(4, 3, 5)[:rank], 2)).astype("float32")
    y = layer(x)
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(copy(x), y)
    assert layer.compute_output_shape(x.shape) == y.shape
    assert layer.constraint.bound_of(layer.kernel.numpy()) <= 1.0


@pytest.mark.parametrize(
    "arguments",
    [(0, 3), (2, (3, 3, 3)), (2, 3, 1.5), (2, 3, 1, "reflect"), (2, 3, 1, "same", 0)],
)
def test_arguments_without_meaning_are_refused(arguments):
    with pytest.raises(InvalidValue):
        SpectralConv2D(*arguments)


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((2, 3), (None, 4, 2)),
        ((3, 3, 1, "same", 1, 2), (None, 4, 4, 2)),
        ((4, 3, 1, "same", 1, 2), (None, 4, 4, 3)),
        ((2, 5, 1, "valid"), (None, 4, 4, 2)),
        ((2, 3), (None, None, 4, 2)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(arguments, shape):
    with pytest.raises(InvalidValue):
        SpectralConv2D(*arguments).build(shape)


CHECKS = ["check_own", "check_own_transposes", "check_keras", "check_keras_transposes"]


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(run_on_backend, backend):
    run_on_backend(backend, SCRIPT, *CHECKS)
