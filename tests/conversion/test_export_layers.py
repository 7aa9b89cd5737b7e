"""Each layer of the package, exported alone: equal predictions, plain layers only."""

import keras
import numpy as np
import pytest

from lipdp.conversion import export
from lipdp.layers.embedding import BoundedEmbedding
from lipdp.testing.parts import LAYERS

PARTS = {part.name: part for part in LAYERS if part.ids is None and isinstance(part.shape, tuple)}


@pytest.fixture
def channels_first():
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format("channels_last")


def check_export(name):
    part = PARTS[name]
    keras.utils.set_random_seed(0)
    inputs = keras.Input(part.shape)
    model = keras.Model(inputs, part.make(dtype="float32")(inputs))
    served = export(model)
    assert "lipdp" not in served.to_json()
    x = np.random.default_rng(0).normal(size=(5, *part.shape)).astype("float32")
    x[0] = 0.0
    np.testing.assert_allclose(
        served.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("name", PARTS)
def test_layer(name):
    check_export(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_layer_where_channels_come_first_by_default(name, channels_first):
    check_export(name)


def test_embedding():
    inputs = keras.Input((4,))
    model = keras.Model(inputs, BoundedEmbedding(5, 3)(inputs))
    x = np.array([[0, 4, 5, -1], [1.5, np.nan, 3, 3]], dtype="float32")
    expected = model.predict(x, verbose=0)
    assert np.all(expected[0, 2:] == 0.0) and np.any(expected[0, :2] != 0.0)
    np.testing.assert_allclose(export(model).predict(x, verbose=0), expected, atol=1e-6)
