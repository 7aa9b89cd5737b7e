"""What every projection promises."""

import keras
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.projections import (
    AOLProjection,
    BjorckProjection,
    ChannelBall,
    FrobeniusProjection,
    L2Ball,
    Projection,
    SpectralProjection,
    UnitColumns,
    spectral_norm_bound,
)

ALL = [
    BjorckProjection(),
    BjorckProjection(iterations=1),
    BjorckProjection(iterations=4),
    SpectralProjection(),
    SpectralProjection(radius=1e-3),
    FrobeniusProjection(),
    FrobeniusProjection(radius=1e20),
    L2Ball(radius=0.1),
    AOLProjection(),
    AOLProjection(radius=30.0),
    UnitColumns(),
    UnitColumns(radius=1e-3),
    ChannelBall(radius=2.0),
    ChannelBall(axis=0),
]
SCALES = [1e-30, 1e-3, 1.0, 1e30]
SHAPES = [(1, 1), (1, 9), (9, 1), (6, 6), (20, 4), (4, 20), (3, 3, 2, 4)]


def label(p):
    return type(p).__name__ + str(p.get_config())


def norm(p, w):
    w = np.asarray(w, dtype=np.float64)
    spectral = isinstance(p, BjorckProjection | SpectralProjection | AOLProjection)
    return np.linalg.norm(w.reshape(-1, w.shape[-1]), 2) if spectral else np.linalg.norm(w)


def is_inside(p, w):
    return p.bound_of(np.asarray(w)) <= p.norm_bound


weights = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda dtype: hnp.arrays(
        dtype,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
        elements=st.floats(-1, 1, width=32),
    )
)


@pytest.mark.parametrize("p", ALL, ids=label)
@given(w=weights, scale=st.sampled_from(SCALES))
@example(w=np.ones((4, 4), np.float32), scale=1.0)
@example(w=np.ones((5, 1), np.float32), scale=1e30)
@example(w=np.array([[1.0, 1e-30]], np.float32), scale=1e30)
@example(w=np.eye(3), scale=1.0)
@example(w=np.eye(3), scale=1.0 + 2.0**-52)
def test_result_is_inside_as_computed(p, w, scale):
    result = np.asarray(p((w * scale).astype(w.dtype)))
    assert result.dtype == w.dtype
    assert is_inside(p, result)


@pytest.mark.parametrize("p", ALL, ids=label)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_result_is_inside_for_every_shape_and_scale(p, dtype, shape):
    rng = np.random.default_rng(0)
    for scale in SCALES:
        w = (rng.normal(size=shape) * scale).astype(dtype)
        result = np.asarray(p(w))
        assert result.shape == shape
        assert is_inside(p, result)
        assert norm(p, result) > 0.0


@pytest.mark.parametrize("p", ALL, ids=label)
def test_zero_stays_zero(p):
    assert not np.any(np.asarray(p(np.zeros((3, 4), np.float32))))


@pytest.mark.parametrize("p", ALL, ids=label)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_weight_becomes_all_nan(p, bad):
    w = np.ones((3, 4), np.float32)
    w[1, 2] = bad
    assert np.all(np.isnan(np.asarray(p(w))))


@pytest.mark.parametrize("p", ALL, ids=label)
def test_config_round_trip(p):
    again = keras.constraints.deserialize(keras.constraints.serialize(p))
    assert type(again) is type(p)
    assert again.get_config() == p.get_config()


@pytest.mark.parametrize("p", ALL, ids=label)
def test_half_precision_is_refused(p):
    with pytest.raises(UnsafeSetting):
        p(keras.ops.ones((2, 2), dtype="float16"))


@pytest.mark.parametrize("p", ALL, ids=label)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_spectral_bound_holds_for_every_member(p, shape):
    for w in (np.random.default_rng(0).normal(size=shape), np.ones(shape)):
        assert spectral_norm_bound(p(w * 1e4)) <= p.spectral_bound(shape)


def test_a_set_promises_no_spectral_bound_by_itself():
    class Entrywise(Projection):
        norm_bound = 1.0

        def bound_of(self, w):
            return float(np.max(np.abs(w)))

        def __call__(self, w):
            return keras.ops.clip(w, -1.0, 1.0)

    assert Entrywise().spectral_bound((3, 4)) == np.inf


@pytest.mark.parametrize("kind", [SpectralProjection, FrobeniusProjection, L2Ball, UnitColumns])
@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, np.inf, "1", None, True, 1e-40])
def test_bad_radius_is_refused(kind, radius):
    with pytest.raises(InvalidValue):
        kind(radius)


@pytest.mark.parametrize(
    "p", [SpectralProjection(), FrobeniusProjection(), L2Ball(1.0), AOLProjection()], ids=label
)
def test_weights_inside_are_left_alone(p):
    w = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    w *= 0.97 / norm(p, w)
    np.testing.assert_array_equal(np.asarray(p(w)), w)


@pytest.mark.parametrize("p", [SpectralProjection(2.0), FrobeniusProjection(2.0)], ids=label)
def test_weights_outside_are_scaled_to_the_boundary(p):
    w = np.random.default_rng(0).normal(size=(60, 40))
    result = np.asarray(p(w))
    np.testing.assert_allclose(result / result[0, 0], w / w[0, 0], rtol=1e-12)
    assert norm(p, result) > 0.98 * 2.0
