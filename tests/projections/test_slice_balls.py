"""Balls of slices: ``UnitColumns`` and ``ChannelBall``."""

import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.projections import ChannelBall, UnitColumns, spectral_norm_bound

BALLS = [(UnitColumns, -1), (ChannelBall, -2)]


def slice_norms(w, axis):
    w = np.moveaxis(np.asarray(w, "float64"), axis, 0)
    return np.linalg.norm(w.reshape(w.shape[0], -1), axis=1)


@st.composite
def kernels(draw):
    shape = draw(st.sampled_from([(1, 5), (5, 1), (4, 6), (3, 3, 4, 1), (3, 2, 4, 3)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = 10.0 ** rng.uniform(-25, 25, size=shape[-2:])
    return (rng.normal(size=shape) * sizes).astype(draw(st.sampled_from(["float32", "float64"])))


@pytest.mark.parametrize(("kind", "axis"), BALLS)
@settings(deadline=None, max_examples=30)
@given(w=kernels(), radius=st.sampled_from([1.0, 0.3, 1e-20]))
@example(w=np.full((4, 3), 3.4e38, np.float32), radius=1.0)
@example(w=np.full((4, 3), 1e-45, np.float32), radius=1e-20)
def test_each_slice_is_inside_and_the_set_has_its_spectral_bound(kind, axis, w, radius):
    p = kind(radius)
    for _ in range(2):
        w = np.asarray(p(w))
        assert p.bound_of(w) <= p.norm_bound == radius
        assert np.max(slice_norms(w, axis)) <= radius
        assert spectral_norm_bound(w) <= p.spectral_bound(w.shape)


@pytest.mark.parametrize(("kind", "axis"), BALLS)
def test_slices_inside_stay_while_others_shrink(kind, axis):
    w = np.random.default_rng(0).normal(size=(3, 4, 5, 6)).astype("float32")
    target = np.linspace(0.1, 2.0, w.shape[axis])
    moved = np.moveaxis(w, axis, -1)
    moved *= target / slice_norms(w, axis)
    result = np.asarray(kind()(w))
    np.testing.assert_allclose(slice_norms(result, axis), np.minimum(target, 1.0), rtol=1e-6)
    kept = np.flatnonzero(target < 0.99)
    np.testing.assert_array_equal(np.take(result, kept, axis), np.take(w, kept, axis))


def test_equal_columns_attain_the_spectral_bound_even_with_one_input():
    p = UnitColumns(2.0)
    for shape in ((1, 9), (3, 9), (20, 9)):
        w = np.zeros(shape)
        w[0] = 5.0
        norm = np.linalg.norm(np.asarray(p(w)), 2)
        assert 1.0 - 1e-12 < norm / p.spectral_bound(shape) <= 1.0
    assert UnitColumns(2.0).spectral_bound((1, 9)) > 2.0 * p.norm_bound


def test_channels_that_act_alike_attain_the_spectral_bound_of_the_stacked_matrix():
    p = ChannelBall()
    stacked = np.asarray(p(np.ones((3, 3, 4, 1)))).reshape(-1, 1)
    assert 1.0 - 1e-12 < np.linalg.norm(stacked, 2) / p.spectral_bound((3, 3, 4, 1)) <= 1.0


def test_channel_ball_bounds_the_block_diagonal_operator():
    w = np.asarray(ChannelBall(0.7)(np.random.default_rng(0).normal(size=(3, 2, 4, 5))))
    blocks = [np.linalg.norm(w[:, :, c].reshape(6, 5), 2) for c in range(4)]
    assert max(blocks) <= ChannelBall(0.7).bound_of(w) <= 0.7


def test_logits_are_separately_one_lipschitz():
    rng = np.random.default_rng(0)
    w = np.asarray(UnitColumns()(rng.normal(size=(7, 3)) * 50), "float64")
    x = rng.normal(size=(100, 7))
    assert np.all(np.abs(x @ w) <= np.linalg.norm(x, axis=1, keepdims=True))


@pytest.mark.parametrize("axis", [0, 1, -1, 3])
def test_channels_on_another_axis(axis):
    w = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    np.testing.assert_allclose(slice_norms(ChannelBall(axis=axis)(w), axis), 1.0, rtol=1e-12)


@pytest.mark.parametrize("axis", [1.0, True, "0", None])
def test_axes_that_are_no_integers_are_refused(axis):
    with pytest.raises(InvalidValue):
        ChannelBall(axis=axis)


@pytest.mark.parametrize(
    ("p", "shape"), [(UnitColumns(), (3,)), (ChannelBall(), (3,)), (ChannelBall(axis=2), (3, 4))]
)
def test_weights_without_slices_are_refused(p, shape):
    with pytest.raises(InvalidValue):
        p(np.ones(shape, np.float32))
    with pytest.raises(InvalidValue):
        p.spectral_bound(shape)


@pytest.mark.parametrize("jit", [False, True])
def test_optimizer_applies_it_in_a_graph(jit):
    dense = keras.layers.Dense(6, use_bias=False, kernel_constraint=UnitColumns())
    model = keras.Sequential([keras.Input((5,)), dense])
    model.compile(keras.optimizers.SGD(1e3), "mse", jit_compile=jit)
    x = np.random.default_rng(0).normal(size=(16, 5)).astype("float32")
    model.fit(x, np.zeros((16, 6)), batch_size=8, verbose=0)
    assert UnitColumns().bound_of(keras.ops.convert_to_numpy(dense.kernel)) <= 1.0
