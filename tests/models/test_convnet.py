"""The convolutional network keeps its promises."""

import keras
import pytest

from lipdp.errors import InvalidValue
from lipdp.models import MODELS
from lipdp.models.images import convnet

SMALL = {"image_shape": (6, 8, 2), "filters": (4, 6)}


@pytest.mark.parametrize(
    ("options", "front"),
    [
        ({"kernel_size": 2, "widths": [8, 4]}, 1),
        pytest.param({"min_norm": 0.5, "input_radius": 4.0}, 2, marks=pytest.mark.slow),
        pytest.param({"dtype": "float64"}, 1, marks=pytest.mark.slow),
    ],
)
def test_bounds(options, front, check_bounds):
    check_bounds(convnet(96, 3, **SMALL, **options), front)


@pytest.mark.slow
def test_trains_privately(check_training):
    check_training(convnet(96, 3, **SMALL))


def test_options_reach_their_layers():
    model = keras.Sequential(
        convnet(96, 5, **SMALL, kernel_size=2, pool_size=2, widths=(10,), input_radius=3.0)
    )
    assert model.layers[0].radius == 3.0
    shapes = [layer.output.shape[1:] for layer in model.layers[1:]]
    images = [(6, 8, 2), *[(6, 8, 4)] * 2, (3, 4, 4), *[(3, 4, 6)] * 2, (1, 2, 6)]
    assert shapes == [*images, (12,), (10,), (10,), (5,)]
    assert model.trainable_variables[0].shape[:2] == (2, 2)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"image_shape": (6, 8, 3)}, "image_shape.*96 features"),
        ({"filters": 4}, "filters"),
        ({"filters": (4, 0)}, r"filters\[1\]"),
        ({"filters": (4, 5)}, "divisible by 2"),
        ({"widths": "64"}, "widths"),
        ({"kernel_size": 0}, "kernel_size"),
        ({"pool_size": 0}, "pool_size"),
        ({"num_outputs": 0}, "num_outputs"),
        ({"min_norm": 0.0}, "min_norm"),
    ],
)
def test_bad_options_are_refused_by_name(options, match):
    arguments = {"num_outputs": 3, **SMALL, **options}
    with pytest.raises(InvalidValue, match=match):
        keras.Sequential(convnet(96, arguments.pop("num_outputs"), **arguments))


def test_is_registered():
    assert MODELS["convnet"] is convnet
