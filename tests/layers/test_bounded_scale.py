"""BoundedScale and the ball of the maximum norm that its factors lie in."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.errors import InvalidValue
from lipdp.layers.affine import BoundedScale
from lipdp.projections import MaxBall

weights = hnp.arrays(np.float64, (2, 3), elements=st.floats(-1e30, 1e30))


def built(radius, shape, dtype="float64"):
    layer = BoundedScale(radius, dtype=dtype)
    layer.build((None, *shape))
    return layer


@given(w=weights, radius=st.sampled_from([1e-30, 0.1, 1.0, 3.0, 1e30]))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_projection_clips_each_entry(w, radius, dtype):
    ball, w = MaxBall(radius), w.astype(dtype)
    inside = keras.ops.convert_to_numpy(ball(w))
    assert inside.dtype == w.dtype
    assert ball.bound_of(inside) <= ball.norm_bound == radius
    np.testing.assert_allclose(inside, np.clip(w, -radius, radius), rtol=1e-6)
    np.testing.assert_array_equal(ball(inside), inside)
    exact = np.linalg.norm(inside.astype("float64"), 2) * (1.0 - 1e-12)  # rounding of the oracle
    assert exact <= ball.spectral_bound(w.shape)
    kept = np.abs(w) <= ball.limit
    np.testing.assert_array_equal(inside[kept], w[kept])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_is_no_member(bad):
    ball, w = MaxBall(1.0), np.array([0.5, bad])
    assert ball.bound_of(w) == np.inf
    assert np.all(np.isnan(keras.ops.convert_to_numpy(ball(w))))


def test_spectral_bound_is_attained():
    assert MaxBall(2.0).spectral_bound((3, 3)) == pytest.approx(6.0)
    assert np.linalg.norm(np.full((3, 3), 2.0), 2) == pytest.approx(6.0)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 2, 3)])
def test_bounds_are_attained(shape, vjp, operator_norm):
    layer = built(1.5, shape)
    layer.scale.assign(layer.constraint(np.array([0.5, -9.0, 1.0])))
    x = np.zeros(shape)
    x[..., 1] = 2.0
    norm = float(np.linalg.norm(x))
    slack = 1.0 + layer.rounding(2.0**-53)
    assert 0.999999 * 1.5 < operator_norm(layer, x) <= layer.backward_bound(norm, 1.0) * slack
    assert np.linalg.norm(layer(x[None])) <= layer.forward_bound(norm) * slack
    gradient = np.linalg.norm(vjp(layer, x, x)[1][0])
    bound = layer.parameter_bounds(norm, norm)[0]
    assert 0.999999 * bound < gradient <= bound * slack


def test_starts_inside_and_states_the_present_factors():
    assert np.all(keras.ops.convert_to_numpy(built(3.0, (2,)).scale) == 1.0)
    small = built(0.1, (2,), "float32")
    assert small.constraint.bound_of(keras.ops.convert_to_numpy(small.scale)) <= 0.1
    assert built(3.0, (2,)).lipschitz(1.0) == 1.0
    assert built(3.0, (2,)).backward_bound(1.0, 1.0) == 3.0


def test_factors_put_outside_are_not_overlooked():
    layer = built(1.0, (2,))
    layer.scale.assign([5.0, 0.0])
    assert layer.backward_bound(1.0, 1.0) == 5.0
    layer.trainable = False
    assert (layer.backward_bound(1.0, 1.0), layer.parameter_bounds(1.0, 1.0)) == (5.0, [])


def test_factors_stay_inside_under_training():
    layer = BoundedScale(0.7)
    model = keras.Sequential([keras.Input((4,)), layer])
    model.compile(keras.optimizers.SGD(1e3), "mse")
    model.fit(np.ones((8, 4)), 100.0 * np.ones((8, 4)), verbose=0)
    present = layer.constraint.bound_of(keras.ops.convert_to_numpy(layer.scale))
    assert 0.699 < present <= 0.7


def test_configuration_comes_back_and_bad_arguments_are_refused():
    copy = keras.layers.deserialize(keras.layers.serialize(BoundedScale(0.3)))
    assert copy.constraint.norm_bound == 0.3
    constraint = keras.constraints.deserialize(keras.constraints.serialize(MaxBall(0.3)))
    assert constraint.radius == 0.3
    for radius in (0.0, -1.0, np.nan, np.inf, "1"):
        with pytest.raises(InvalidValue):
            BoundedScale(radius)
