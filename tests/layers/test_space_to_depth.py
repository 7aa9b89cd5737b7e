"""SpaceToDepth and DepthToSpace."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.layers.reshaping import DepthToSpace, SpaceToDepth

sizes = st.integers(1, 3)


@given(rows=sizes, columns=sizes, channels=sizes, block=st.sampled_from([2, 3]))
def test_blocks_move_to_channels_and_back(rows, columns, channels, block):
    shape = (2, rows * block, columns * block, channels)
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    moved = SpaceToDepth(block)(x)
    np.testing.assert_array_equal(moved, tf.nn.space_to_depth(x, block))
    assert SpaceToDepth(block).compute_output_shape(shape) == moved.shape
    assert DepthToSpace(block).compute_output_shape(moved.shape) == shape
    np.testing.assert_array_equal(DepthToSpace(block)(moved), x)


@pytest.mark.parametrize("layer", [SpaceToDepth(), DepthToSpace()])
def test_the_derivative_is_a_permutation(layer, jacobian):
    matrix = jacobian(layer, np.random.default_rng(0).normal(size=(2, 4, 4)))
    assert set(np.unique(matrix)) == {0.0, 1.0}
    np.testing.assert_array_equal(matrix.sum(axis=0), 1.0)
    np.testing.assert_array_equal(matrix.sum(axis=1), 1.0)
    assert layer.forward_bound(3.0) == layer.backward_bound(1.0, 3.0) == 3.0


def test_shapes_that_do_not_fit_are_refused():
    for layer, shape in (
        (SpaceToDepth(2), (None, 4, 3, 1)),
        (SpaceToDepth(2), (None, 4, 4)),
        (DepthToSpace(2), (None, 4, 4, 6)),
    ):
        with pytest.raises(InvalidValue):
            layer.build(shape)


@pytest.mark.parametrize("layer", [SpaceToDepth(3), DepthToSpace(3)])
def test_configurations_come_back(layer):
    assert keras.layers.deserialize(keras.layers.serialize(layer)).block_size == 3
