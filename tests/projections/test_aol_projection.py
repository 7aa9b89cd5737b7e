import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lipdp.projections import AOLProjection, spectral_norm_bound
from lipdp.projections.spectral import _row_sums


def rescaled(w):
    """The formula, for a matrix with at least as many rows as columns."""
    sums = np.abs(w.T @ w).sum(axis=1)
    return w * np.where(sums > 0, 1.0 / np.sqrt(np.where(sums > 0, sums, 1.0)), 0.0)


@st.composite
def graded(draw):
    """Columns of very different sizes, some zero, some nearly orthogonal, some equal."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    base = np.linalg.qr(rng.normal(size=(rows, rows)))[0][:, rng.integers(rows, size=columns)]
    noise = rng.normal(size=base.shape) * 10.0 ** rng.uniform(-18, 1)
    sizes = 10.0 ** rng.uniform(-20, 0, size=columns) * rng.integers(0, 2, size=columns)
    return (base + noise) * draw(st.sampled_from([sizes, np.ones(columns)]))


@settings(deadline=None, max_examples=40)
@given(w=graded(), radius=st.sampled_from([1.0, 0.3, 1e-20]), dtype=st.sampled_from("fd"))
@example(w=np.ones((5, 3)), radius=1.0, dtype="f")
@example(w=np.eye(4) * 7.0, radius=1.0, dtype="d")
@example(w=np.array([[1.0, 1e-30], [1e-38, 1e-38]]), radius=1.0, dtype="f")
def test_norm_stays_inside_over_repeated_projections(w, radius, dtype):
    p, w = AOLProjection(radius), (w * 1e3).astype(dtype)
    for start in (w, w.T):
        once = np.asarray(p(start))
        twice = np.asarray(p(once))
        assert max(map(spectral_norm_bound, (once, twice))) <= radius == p.norm_bound


@settings(deadline=None, max_examples=60)
@given(w=graded(), dtype=st.sampled_from(["float32", "float64"]))
@example(w=np.array([[1.0, 1e-30], [1e-38, 1e-38]]), dtype="float32")
@example(w=np.array([[1.0, 1e-20], [-1.0, 1e-20 * (1 + 1e-6)]]), dtype="float32")
def test_row_sums_are_bounds_in_the_arithmetic_at_hand(w, dtype):
    v = (w / (np.max(np.abs(w)) or 1.0)).astype(dtype)
    exact = np.abs(v.T.astype(np.longdouble) @ v.astype(np.longdouble)).sum(axis=1)
    assert np.all(np.asarray(_row_sums(keras.ops.convert_to_tensor(v)), np.longdouble) >= exact)


@pytest.mark.parametrize("shape", [(9, 4), (6, 6), (3, 3, 2, 5)])
def test_columns_follow_the_formula(shape):
    w = np.random.default_rng(0).normal(size=shape) * 3.0
    expected = rescaled(w.reshape(-1, shape[-1])).reshape(shape)
    np.testing.assert_allclose(np.asarray(AOLProjection()(w)), expected, rtol=1e-10)
    np.testing.assert_allclose(np.asarray(AOLProjection(0.2)(w)), 0.2 * expected, rtol=1e-10)


def test_rows_follow_the_formula_where_there_are_fewer():
    w = np.random.default_rng(0).normal(size=(4, 9)) * 3.0
    np.testing.assert_allclose(np.asarray(AOLProjection()(w)), rescaled(w.T).T, rtol=1e-10)


def test_zero_columns_stay_zero():
    w = np.zeros((6, 4), np.float32)
    w[:, 1] = 5.0
    result = np.asarray(AOLProjection()(w))
    assert not np.any(result[:, [0, 2, 3]])
    np.testing.assert_allclose(np.linalg.norm(result[:, 1]), 1.0, rtol=1e-5)


def test_orthogonal_columns_of_any_size_become_orthonormal():
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 5)))[0]
    result = np.asarray(AOLProjection()(q * np.array([9.0, 3.0, 1.0, 1e-2, 1e-6])))
    np.testing.assert_allclose(result, q, rtol=1e-6)


def test_weights_inside_are_left_alone_results_among_them():
    w = np.random.default_rng(0).normal(size=(12, 6)).astype("float32")
    inside = w * np.float32(0.98 / np.linalg.norm(w, 2))
    np.testing.assert_array_equal(np.asarray(AOLProjection()(inside)), inside)
    once = np.asarray(AOLProjection()(w))
    assert np.linalg.norm(once, 2) < 0.98
    np.testing.assert_array_equal(np.asarray(AOLProjection()(once)), once)


@pytest.mark.parametrize("jit", [False, True])
def test_optimizer_applies_it_in_a_graph(jit):
    dense = keras.layers.Dense(6, use_bias=False, kernel_constraint=AOLProjection())
    model = keras.Sequential([keras.Input((5,)), dense])
    model.compile(keras.optimizers.SGD(100.0), "mse", jit_compile=jit)
    x = np.random.default_rng(0).normal(size=(16, 5)).astype("float32")
    model.fit(x, np.zeros((16, 6)), batch_size=8, verbose=0)
    assert spectral_norm_bound(keras.ops.convert_to_numpy(dense.kernel)) <= 1.0
