"""The residual network keeps its promises."""

import keras
import numpy as np
import pytest

from lipdp.errors import InvalidValue
from lipdp.layers import SpectralDense
from lipdp.models import MODELS
from lipdp.models.images import averaged, resnet

SMALL = {"image_shape": (8, 4, 2), "filters": (4, 6)}


@pytest.mark.parametrize(
    ("options", "front"),
    [
        ({"min_norm": 0.5, "input_radius": 4.0}, 2),
        pytest.param({"blocks": 2, "kernel_size": 2}, 1, marks=pytest.mark.slow),
        pytest.param({"dtype": "float64"}, 1, marks=pytest.mark.slow),
    ],
)
def test_bounds(options, front, check_bounds):
    check_bounds(resnet(64, 3, **SMALL, **options), front)


@pytest.mark.slow
def test_trains_privately(check_training):
    check_training(resnet(64, 3, **SMALL))


def test_stages_halve_the_image_and_hold_their_blocks():
    model = keras.Sequential(resnet(64, 5, **SMALL, blocks=2))
    shapes = [layer.output.shape[1:] for layer in model.layers[1:]]
    stages = [(4, 2, 8), *[(4, 2, 4)] * 3, (2, 1, 16), *[(2, 1, 6)] * 3]
    assert shapes == [(8, 4, 2), *stages, (12,), (5,)]
    assert len(model.trainable_variables) == 2 + 4 + 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_block_averages_in_its_own_precision(dtype):
    dense = SpectralDense(3, dtype=dtype)
    block = averaged((2, 3), [dense], dtype)
    x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(dtype)
    y = keras.ops.convert_to_numpy(block(x))
    kernel = keras.ops.convert_to_numpy(dense.kernel)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, (x + x @ kernel) / 2, rtol=0, atol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"image_shape": (4, 4, 2)}, "image_shape.*64 features"),
        ({"filters": (4, 4, 4)}, "divisible by 2"),
        ({"filters": (4, 5)}, "divisible by 2"),
        ({"filters": ("4",)}, r"filters\[0\]"),
        ({"blocks": 0}, "blocks"),
        ({"kernel_size": 0}, "kernel_size"),
        ({"num_outputs": 0}, "num_outputs"),
    ],
)
def test_bad_options_are_refused_by_name(options, match):
    arguments = {"num_outputs": 3, **SMALL, **options}
    with pytest.raises(InvalidValue, match=match):
        resnet(64, arguments.pop("num_outputs"), **arguments)


def test_is_registered():
    assert MODELS["resnet"] is resnet
