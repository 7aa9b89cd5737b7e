"""GroupSort, MaxMin, FullSort and HouseholderActivation."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.errors import InvalidValue
from lipdp.layers import FullSort, GroupSort, HouseholderActivation, MaxMin

ties = hnp.arrays(np.float64, 6, elements=st.sampled_from([-1.0, -0.0, 0.0, 1.0, 1e38]))
SORTS = {
    "pairs": GroupSort(),
    "triples": GroupSort(3),
    "singles": GroupSort(1),
    "MaxMin": MaxMin(),
    "FullSort": FullSort(),
}


floats = st.floats(-(2.0**126), 2.0**126, width=32, allow_subnormal=False)


def call(layer, x):
    return keras.ops.convert_to_numpy(layer(np.asarray(x)[None]))[0]


@pytest.mark.parametrize("name", SORTS)
@given(x=ties)
@example(x=np.zeros(6))
@example(x=np.full(6, 1e38))
def test_derivative_is_the_permutation_that_was_applied(name, x, jacobian):
    layer = SORTS[name]
    matrix = jacobian(type(layer).from_config({**layer.get_config(), "dtype": "float64"}), x)
    assert set(np.unique(matrix)) <= {0.0, 1.0}
    np.testing.assert_array_equal(matrix.sum(axis=0), 1.0)
    np.testing.assert_array_equal(matrix.sum(axis=1), 1.0)


@pytest.mark.parametrize("layer", [GroupSort(), MaxMin()])
@pytest.mark.parametrize("compiled", [False, True])
def test_both_of_a_pair_move_however_threads_compare_subnormal_numbers(layer, compiled):
    rng = np.random.default_rng(0)
    # Large enough to be shared between threads, of which some take subnormal numbers for zero.
    x = tf.constant(rng.choice([0.0, 1e-40, -1e-40], (4096, 512)).astype("float32"))
    upstream = tf.constant(rng.standard_normal((4096, 512)).astype("float32"))

    def pulled():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return tape.gradient(y, x, upstream)

    found = (tf.function(pulled) if compiled else pulled)().numpy()
    shape, axis = ((4096, 256, 2), 2) if isinstance(layer, GroupSort) else ((4096, 2, 256), 1)
    given = np.sort(upstream.numpy().reshape(shape), axis=axis)
    np.testing.assert_array_equal(np.sort(found.reshape(shape), axis=axis), given)


def test_minimum_and_maximum_would_break_the_bound(jacobian):
    def naive(x):
        a, b = tf.split(x, 2, axis=-1)
        return tf.concat([tf.where(a >= b, a, b), tf.where(b >= a, a, b)], axis=-1)

    layer = keras.layers.Lambda(naive, dtype="float64")
    layer.trainable = False
    assert np.linalg.norm(jacobian(layer, np.zeros(2)), 2) == pytest.approx(math.sqrt(2.0))
    assert np.linalg.norm(jacobian(MaxMin(dtype="float64"), np.zeros(2)), 2) == 1.0


def test_order_of_the_results():
    x = np.array([3.0, 1.0, 2.0, 4.0, 0.0, -1.0])
    np.testing.assert_array_equal(call(GroupSort(), x), [1, 3, 2, 4, -1, 0])
    np.testing.assert_array_equal(call(GroupSort(3), x), [1, 2, 3, -1, 0, 4])
    np.testing.assert_array_equal(call(FullSort(), x), [-1, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(call(MaxMin(), x), [4, 1, 2, 3, 0, -1])


@given(hnp.arrays(np.float32, (2, 3, 6), elements=floats))
def test_sorting_is_exact_in_float32(x):
    for layer in (GroupSort(), GroupSort(3), FullSort()):
        size = layer.group_size if isinstance(layer, GroupSort) else 6
        expected = np.sort(x.reshape(2, 3, -1, size), axis=-1).reshape(x.shape)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer(x)), expected)


@pytest.mark.parametrize("channels", [2, 4, 6])
@given(data=st.data())
def test_max_min_sorts_its_halves_exactly_in_float32(channels, data):
    x = data.draw(hnp.arrays(np.float32, (2, 3, channels), elements=floats))
    halves = np.sort(x.reshape(2, 3, 2, -1), axis=2)[:, :, ::-1]
    found = keras.ops.convert_to_numpy(MaxMin()(x))
    np.testing.assert_array_equal(found, halves.reshape(x.shape))


@pytest.mark.parametrize("layer", [GroupSort(), MaxMin()])
@pytest.mark.parametrize("channels", [2, 4])
def test_a_plain_graph_sorts_alike(layer, channels):
    rng = np.random.default_rng(0)
    x = rng.integers(-1, 2, (50, 3, channels)).astype("float32")
    given = keras.Input((None, channels))
    graph = keras.Model(given, layer.call(given))
    np.testing.assert_array_equal(graph(x), layer(x))


angles = st.sampled_from([0.0, 0.3, math.pi / 2, 2.0, math.pi, -1.0])


@given(angle=angles, position=st.floats(-3, 3), offset=st.sampled_from([0.0, 1e-9, -1e-9, 0.5]))
def test_householder_derivative_is_orthogonal_at_the_kink_too(angle, position, offset, jacobian):
    layer = HouseholderActivation(angle, dtype="float64")
    line = np.array([math.cos(angle / 2), math.sin(angle / 2)])
    normal = np.array([math.sin(angle / 2), -math.cos(angle / 2)])
    matrix = jacobian(layer, position * line + offset * normal)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(2), atol=1e-15)


@given(angle=angles, pair=st.tuples(st.floats(-3, 3), st.floats(-3, 3)))
def test_householder_preserves_the_norm_and_folds_on_one_side(angle, pair):
    result = call(HouseholderActivation(angle, dtype="float64"), np.array(pair))
    assert np.linalg.norm(result) == pytest.approx(np.linalg.norm(pair), rel=1e-12)
    normal = np.array([math.sin(angle / 2), -math.cos(angle / 2)])
    assert normal @ result == pytest.approx(abs(normal @ pair), abs=1e-12)


@given(hnp.arrays(np.float64, (2, 4), elements=st.floats(-3, 3)))
def test_householder_at_a_right_angle_is_max_min(x):
    left = HouseholderActivation(dtype="float64")(x)
    np.testing.assert_allclose(left, MaxMin(dtype="float64")(x), atol=1e-14)


@pytest.mark.parametrize("layer", [GroupSort(), GroupSort(4), MaxMin(), HouseholderActivation()])
def test_channels_that_do_not_divide_are_refused(layer):
    with pytest.raises(InvalidValue, match="divisible"):
        layer.build((None, 2, 5))
