"""The same architecture without constraints."""

import keras
import numpy as np
import pytest

from lipdp.errors import UnsupportedLayer
from lipdp.layers import (
    BoundedBias,
    BoundedEmbedding,
    BoundedInput,
    BoundedScale,
    CotangentClip,
    MaxMin,
    SpectralDense,
)
from lipdp.models.images import convnet, resnet
from lipdp.models.vectors import mlp
from lipdp.run.dp_sgd import unconstrained
from lipdp.training import Sequential

IMAGE = {"image_shape": (8, 8, 1), "filters": (4,)}
ARCHITECTURES = {
    "mlp": lambda: mlp(6, 3, widths=(8, 4), dtype="float64"),
    "mlp with biases": lambda: mlp(6, 1, widths=(8,), bias_radius=1.0, dtype="float64"),
    "convnet": lambda: convnet(64, 3, widths=(4,), dtype="float64", **IMAGE),
    "resnet": lambda: resnet(64, 2, dtype="float64", **IMAGE),
}


def rows_of(model):
    return np.random.default_rng(0).normal(size=(5, model.input_shape[1])) / 5


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_it_starts_as_the_same_function_without_constraints(name):
    model = Sequential(ARCHITECTURES[name]())
    for variable in model.trainable_variables:
        variable.assign(variable + 0.01)
    free = unconstrained(model)
    x = rows_of(model)
    np.testing.assert_allclose(free(x), model(x), rtol=1e-9, atol=1e-12)
    assert sum(keras.ops.size(v) for v in free.trainable_variables) == sum(
        keras.ops.size(v) for v in model.trainable_variables
    )
    assert all(variable.constraint is None for variable in free.trainable_variables)
    assert free.trainable_variables[0] is not model.trainable_variables[0]


def test_a_bias_is_trained_and_a_clip_of_cotangents_is_not_there():
    layers = [BoundedInput((4,), 1.0), SpectralDense(4), BoundedBias(0.5), CotangentClip(0.1)]
    free = unconstrained(Sequential([*layers, MaxMin(), SpectralDense(2)]))
    assert [v.name for v in free.trainable_variables] == ["kernel", "bias", "kernel"]
    assert not any(isinstance(layer, CotangentClip) for layer in free.layers)


def test_relu_is_a_choice():
    model = Sequential(mlp(6, 3, widths=(8, 4)))
    kinds = [type(layer) for layer in unconstrained(model, relu=True).layers]
    assert kinds.count(keras.layers.ReLU) == 2 and MaxMin not in kinds
    kinds = [type(layer) for layer in unconstrained(model).layers]
    assert kinds.count(MaxMin) == 2 and keras.layers.ReLU not in kinds


@pytest.mark.parametrize(
    "layers",
    [
        [BoundedInput((4,), 1.0), BoundedScale(1.0, name="odd"), SpectralDense(2)],
        [BoundedInput((4,), 1.0), BoundedBias(1.0, name="odd"), SpectralDense(2)],
        [keras.Input((4,)), BoundedEmbedding(3, 2, radius=1.0, name="odd"), keras.layers.Flatten()],
    ],
)
def test_a_layer_without_counterpart_is_named(layers):
    with pytest.raises(UnsupportedLayer, match="'odd'"):
        unconstrained(Sequential(layers))
