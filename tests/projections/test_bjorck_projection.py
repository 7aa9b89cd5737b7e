import math

import keras
import numpy as np
import pytest

from lipdp.errors import InvalidValue
from lipdp.projections import BjorckProjection, spectral_norm_bound
from lipdp.projections.spectral import BjorckStep, _check_precision


def orthogonal(shape, seed=0):
    return np.asarray(keras.initializers.Orthogonal(seed=seed)(shape))


@pytest.mark.parametrize("shape", [(8, 8), (100, 10), (10, 100), (256, 256)])
def test_orthogonal_kernels_stay_near_orthogonal(shape):
    values = np.linalg.svd(np.asarray(BjorckProjection()(orthogonal(shape))), compute_uv=False)
    assert np.all(values > 1.0 - 0.003)
    double = orthogonal(shape).astype("float64")
    values = np.linalg.svd(np.asarray(BjorckProjection()(double)), compute_uv=False)
    assert np.all(values > 1.0 - 1e-10)


@pytest.mark.parametrize("shape", [(512, 512), (784, 256), (1024, 512)])
def test_rounding_takes_at_most_one_per_cent(shape):
    result = np.asarray(BjorckProjection()(orthogonal(shape)))
    assert 0.99 < spectral_norm_bound(result) <= 1.0


def test_noise_is_pulled_back_to_the_set():
    for iterations, least in ((1, 0.85), (2, 0.97), (3, 0.99)):
        rng = np.random.default_rng(0)
        w, p = orthogonal((64, 32)), BjorckProjection(iterations)
        for _ in range(20):
            w = np.asarray(p(w + rng.normal(size=w.shape).astype("float32") * 0.02))
            assert spectral_norm_bound(w) <= 1.0
            assert np.min(np.linalg.svd(w, compute_uv=False)) > least


def test_singular_values_follow_the_polynomial_and_keep_their_vectors():
    rng = np.random.default_rng(0)
    u = np.linalg.qr(rng.normal(size=(6, 3)))[0]
    v = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    values = np.array([1.02, 0.7, 0.2])
    result = np.asarray(BjorckProjection(iterations=1)(u * values @ v.T))
    expected = u * (1.5 * values - 0.5 * values**3) @ v.T
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_rank_deficient_kernels_stay_inside_over_many_steps():
    p, w = BjorckProjection(), np.ones((20, 20), np.float32)
    for _ in range(30):
        w = np.asarray(p(w))
        assert spectral_norm_bound(w) <= 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("iterations", [1, 3, 25])
@pytest.mark.parametrize("rank", [1, 5])
def test_cold_starts_of_low_rank_neither_drift_nor_leave(dtype, iterations, rank):
    # Steps on a Gram matrix that is not recomputed leave the ball after 20 and blow up after 25.
    rng = np.random.default_rng(rank)
    w = (rng.normal(size=(24, rank)) @ rng.normal(size=(rank, 16)) * 1e3).astype(dtype)
    for _ in range(3):
        w = np.asarray(BjorckProjection(iterations)(w))
        assert spectral_norm_bound(w) <= 1.0
    if iterations == 25:
        assert np.linalg.svd(w, compute_uv=False)[rank - 1] > 0.999


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", [1e-3, 0.3, 30.0])
def test_noise_of_every_size_stays_inside_over_many_steps(dtype, noise):
    rng, p = np.random.default_rng(0), BjorckProjection()
    w = np.zeros((12, 30), dtype)
    for _ in range(25):
        w = np.asarray(p((w + rng.normal(size=w.shape) * noise).astype(dtype)))
        assert spectral_norm_bound(w) <= 1.0


def test_a_start_just_below_the_switch_to_division_maps_inside():
    q = orthogonal((9, 9)).astype("float64")
    for size in (1.0, 1.4999, 1.5, 1.5001, 1.9, 2.0, 2.5):
        assert spectral_norm_bound(BjorckProjection(1)(q * size)) <= 1.0


@pytest.mark.parametrize("iterations", [0, -1, 1.5, "2", True])
def test_bad_iterations_are_refused(iterations):
    with pytest.raises(InvalidValue):
        BjorckProjection(iterations)


def test_float32_arithmetic_is_refused_where_its_proof_ends():
    _check_precision(1024, 1024, 2.0**-24)
    with pytest.raises(InvalidValue):
        _check_precision(4096, 4096, 2.0**-24)
    _check_precision(4096, 4096, 2.0**-53)


@pytest.mark.parametrize("jit", [False, True])
def test_optimizer_applies_it_in_a_graph(jit):
    dense = keras.layers.Dense(6, use_bias=False, kernel_constraint=BjorckProjection())
    model = keras.Sequential([keras.Input((5,)), dense])
    model.compile(keras.optimizers.SGD(100.0), "mse", jit_compile=jit)
    x = np.random.default_rng(0).normal(size=(16, 5)).astype("float32")
    for _ in range(3):
        model.fit(x, np.zeros((16, 6)), batch_size=8, verbose=0)
        assert spectral_norm_bound(keras.ops.convert_to_numpy(dense.kernel)) <= 1.0


def near_orthogonal(rng, shape, noise, scale):
    q = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    return scale * (q[0] @ q[2]) + noise * rng.normal(size=shape)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_step_near_the_set_ends_inside(dtype):
    """From both sides of every switch; singular values by LAPACK in float64."""
    rng = np.random.default_rng(0)
    sizes = (0.0, 1e-30, 1e-3, 0.5, 0.99, 1.0, 1.01, 1.3, 1.4999, 1.5, 1.5001, 1.7, 2.0, 3.0)
    for shape in ((1, 1), (1, 5), (5, 1), (7, 7), (40, 12), (12, 40)):
        for scale in sizes:
            for noise in (0.0, 1e-7, 1e-3, 0.05, 0.3):
                w = near_orthogonal(rng, shape, noise, scale).astype(dtype)
                result = np.asarray(BjorckProjection(1)(w)).astype("float64")
                assert np.linalg.svd(result, compute_uv=False)[0] <= 1.0
                assert spectral_norm_bound(result) <= 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_both_sides_of_what_counts_as_far_end_inside_and_orthogonal(dtype, iterations):
    """A sum of squares around 10,000; spread singular values need the later steps."""
    rng = np.random.default_rng(0)
    edge = math.sqrt(1e4 / 12)
    for factor in (0.5, 0.999, 1.0, 1.001, 2.0, 40.0):
        for noise in (0.0, 0.02, 0.15):
            w = near_orthogonal(rng, (40, 12), noise * factor * edge, factor * edge).astype(dtype)
            result = np.asarray(BjorckProjection(iterations)(w)).astype("float64")
            values = np.linalg.svd(result, compute_uv=False)
            assert values[0] <= 1.0
            assert spectral_norm_bound(result) <= 1.0
            assert noise or values[-1] > 0.9


def test_the_norm_square_of_a_near_step_is_a_bound():
    rng = np.random.default_rng(0)
    for noise in (0.0, 1e-4, 0.02, 0.5, 2.0):
        w = near_orthogonal(rng, (60, 30), noise, 1.0).astype("float32")
        true = np.linalg.norm(w.astype("float64"), 2) ** 2
        v = keras.ops.convert_to_tensor(w)
        step = BjorckStep(v, keras.ops.transpose(v) @ v)
        bounds = [float(step.norm_square(squarings)) for squarings in (0, 1, 2)]
        assert true <= min(bounds)
        assert bounds == sorted(bounds, reverse=True) or noise <= 1e-4
        assert bounds[2] <= 1.3 * true


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_weight_that_is_not_finite_becomes_nan(bad, dtype):
    w = orthogonal((6, 4)).astype(dtype)
    w[2, 1] = bad
    assert np.all(np.isnan(np.asarray(BjorckProjection()(w))))


@pytest.mark.parametrize("size", [1e30, 1e38])
def test_huge_weights_take_the_way_from_far(size):
    result = np.asarray(BjorckProjection()(orthogonal((6, 4)) * np.float32(size)))
    assert 0.5 < spectral_norm_bound(result) <= 1.0
