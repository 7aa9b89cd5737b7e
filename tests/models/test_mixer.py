"""The mixer keeps its promises and computes what it says."""

import keras
import numpy as np
import pytest

from lipdp.errors import InvalidValue
from lipdp.models import MODELS
from lipdp.models.images import mixer

SHAPE = (4, 8, 2)
SMALL = {"image_shape": SHAPE, "patch_size": 2, "channels": 4}


@pytest.mark.parametrize(
    ("options", "front"),
    [
        ({"residual": True, "token_width": 4, "channel_width": 10, "dtype": "float64"}, 1),
        pytest.param({"depth": 3}, 1, marks=pytest.mark.slow),
        pytest.param({"depth": 1, "min_norm": 0.5, "input_radius": 4.0}, 2, marks=pytest.mark.slow),
    ],
)
def test_bounds(options, front, check_bounds):
    check_bounds(mixer(64, 3, **SMALL, **options), front)


@pytest.mark.slow
def test_trains_privately(check_training):
    check_training(mixer(64, 3, **SMALL, depth=1, residual=True))


def sorted_pairs(x):
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([np.maximum(first, second), np.minimum(first, second)], axis=-1)


@pytest.mark.parametrize("residual", [False, True])
def test_against_numpy(residual):
    model = keras.Sequential(
        mixer(64, 3, **SMALL, depth=2, token_width=6, residual=residual, dtype="float64")
    )
    kernels = [keras.ops.convert_to_numpy(v) for v in model.trainable_variables]
    weight = iter(kernels)

    def mixing(t):
        f = sorted_pairs(t @ next(weight)) @ next(weight)
        return (t + f) / 2 if residual else f

    row = np.random.default_rng(0).normal(size=64).astype("float32").astype("float64")
    image = (row / max(1.0, np.linalg.norm(row))).reshape(SHAPE)
    patches = [image[i : i + 2, j : j + 2].ravel() for i in (0, 2) for j in (0, 2, 4, 6)]
    tokens = np.stack(patches) @ next(weight)
    for _ in range(2):
        tokens = mixing(mixing(tokens.T).T)
    logits = model.predict(row[None], verbose=0)[0]
    np.testing.assert_allclose(logits, tokens.ravel() @ next(weight), atol=1e-12)
    assert next(weight, None) is None


def test_square_mixings_keep_norms():
    model = keras.Sequential(mixer(64, 3, **SMALL, depth=3, dtype="float64"))
    embedding, flat = model.layers[4], model.layers[-2]
    x = np.random.default_rng(0).normal(size=(5, 64))
    both = keras.Model(model.inputs, [embedding.output, flat.output])
    before, after = (np.linalg.norm(t.reshape(5, -1), axis=1) for t in both.predict(x, verbose=0))
    np.testing.assert_allclose(after, before, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"image_shape": (4, 4, 2)}, "image_shape.*64 features"),
        ({"image_shape": (8, 8)}, "image_shape"),
        ({"image_shape": "448"}, "image_shape"),
        ({"image_shape": (4, -8, -2)}, r"image_shape\[1\]"),
        ({"patch_size": 3}, "divisible by 3"),
        ({"patch_size": 0}, "patch_size"),
        ({"depth": 0}, "depth"),
        ({"channels": 0}, "channels"),
        ({"token_width": 0}, "units"),
        ({"num_outputs": 0}, "num_outputs"),
        ({"input_radius": -1.0}, "radius"),
    ],
)
def test_bad_options_are_refused_by_name(options, match):
    arguments = {"num_outputs": 3, **SMALL, **options}
    with pytest.raises(InvalidValue, match=match):
        mixer(64, arguments.pop("num_outputs"), **arguments)


@pytest.mark.parametrize("residual", [False, True])
def test_odd_widths_are_refused(residual):
    with pytest.raises(InvalidValue, match="divisible by 2"):
        keras.Sequential(mixer(64, 3, **SMALL, token_width=5, residual=residual))


def test_is_registered():
    assert MODELS["mixer"] is mixer
