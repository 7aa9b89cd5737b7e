import keras
import numpy as np
import pytest

from lipdp.errors import InvalidValue
from lipdp.projections import BjorckProjection, spectral_norm_bound


def orthogonal(shape, seed=0):
    return np.asarray(keras.initializers.Orthogonal(seed=seed)(shape))


@pytest.mark.parametrize("shape", [(8, 8), (100, 10), (10, 100), (256, 256)])
def test_orthogonal_kernels_stay_near_orthogonal(shape):
    values = np.linalg.svd(np.asarray(BjorckProjection()(orthogonal(shape))), compute_uv=False)
    assert np.all(values > 1.0 - 1e-4)


def test_slack_is_small_for_sides_up_to_512():
    result = np.asarray(BjorckProjection()(orthogonal((512, 512))))
    assert 1.0 - 1e-3 < spectral_norm_bound(result) <= 1.0


def test_noise_is_pulled_back_to_the_set():
    rng = np.random.default_rng(0)
    w, p = orthogonal((64, 32)), BjorckProjection()
    for _ in range(20):
        w = np.asarray(p(w + rng.normal(size=w.shape).astype("float32") * 0.02))
        assert spectral_norm_bound(w) <= 1.0
        assert np.min(np.linalg.svd(w, compute_uv=False)) > 0.97


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
    p = BjorckProjection()
    assert p._slack(512, 512, 2.0**-24, 2.0**-24) < 0.03
    with pytest.raises(InvalidValue):
        p._slack(4096, 4096, 2.0**-24, 2.0**-24)


@pytest.mark.parametrize("jit", [False, True])
def test_optimizer_applies_it_in_a_graph(jit):
    dense = keras.layers.Dense(6, use_bias=False, kernel_constraint=BjorckProjection())
    model = keras.Sequential([keras.Input((5,)), dense])
    model.compile(keras.optimizers.SGD(100.0), "mse", jit_compile=jit)
    x = np.random.default_rng(0).normal(size=(16, 5)).astype("float32")
    for _ in range(3):
        model.fit(x, np.zeros((16, 6)), batch_size=8, verbose=0)
        assert spectral_norm_bound(keras.ops.convert_to_numpy(dense.kernel)) <= 1.0
