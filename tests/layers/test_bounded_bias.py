import keras
import numpy as np
import pytest

from lipdp.layers import BoundedBias


@pytest.mark.parametrize("positions", [(), (4,), (3, 3)])
def test_bounds_are_attained(positions, vjp):
    layer = BoundedBias(0.5, dtype="float64")
    layer.build((None, *positions, 2))
    layer.bias.assign(layer.constraint(np.array([30.0, 40.0])))
    x = np.broadcast_to([3.0, 4.0], (*positions, 2))
    norm = float(np.linalg.norm(x))
    y = keras.ops.convert_to_numpy(layer(x[None]))
    assert 0.999999 * layer.forward_bound(norm) < np.linalg.norm(y) <= layer.forward_bound(norm)
    bound = layer.parameter_bounds(norm, norm)[0]
    assert 0.999999 * bound < np.linalg.norm(vjp(layer, x, x)[1][0]) <= bound


def test_image_bias_has_the_root_of_its_positions():
    layer = BoundedBias(1.0)
    layer.build((None, 28, 28, 3))
    assert layer.parameter_bounds(1.0, 1.0) == [28.0]


def test_starts_at_zero_and_frozen_uses_its_norm():
    layer = BoundedBias(1.0, trainable=False)
    layer.build((None, 3))
    assert layer.forward_bound(2.0) == 2.0
    assert layer.lipschitz(2.0) == 1.0


def test_a_bias_put_outside_its_ball_is_not_overlooked():
    layer = BoundedBias(1.0)
    layer.build((None, 1))
    layer.bias.assign([5.0])
    assert layer.forward_bound(0.0) >= 5.0
