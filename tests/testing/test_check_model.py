import keras
import numpy as np
import pytest
from keras import ops

from lipdp.errors import BoundViolation, InvalidValue, UnboundedGradient, UnsupportedLayer
from lipdp.layers import BoundedInput, MaxMin, SpectralDense
from lipdp.layers.base import NonExpansiveLayer
from lipdp.layers.embedding import BoundedEmbedding
from lipdp.losses import MeanAbsoluteError, MulticlassHinge, PositionwiseLoss
from lipdp.testing import check_model

LOSS = MulticlassHinge(0.5)


class Scaled(NonExpansiveLayer):
    """Claims to grow no norm; does so forward and backward, or in one of the two."""

    def __init__(self, forward=1.0, backward=1.0, **kwargs):
        super().__init__(**kwargs)
        self.forward, self.backward = forward, backward

    def call(self, x):
        still = ops.stop_gradient(x)
        return self.backward * x + (self.forward - self.backward) * still


class Mean(NonExpansiveLayer):
    def call(self, x):
        return x - ops.mean(x, axis=0, keepdims=True)


class Fragile(NonExpansiveLayer):
    """Derivative NaN at zero, where all-zero records lie."""

    def call(self, x):
        return ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True)) * ops.ones_like(x) / 2.0


def model(*layers, units=3):
    return keras.Sequential([BoundedInput((4,), radius=1.0), *layers, SpectralDense(units)])


def test_honest_models_pass_and_their_weights_are_put_back():
    honest = model(SpectralDense(4), MaxMin(), Scaled())
    honest.layers[1].kernel.assign(3.0 * np.eye(4))
    before = honest.get_weights()
    found = check_model(honest, LOSS, starts=6)
    assert set(found.ratios) == {
        *(f"gradient of {v.path}" for v in honest.trainable_variables),
        "difference of outputs",
    }
    assert min(found.ratios.values()) > 0.7
    for one, other in zip(before, honest.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Scaled(1.3, 1.3), "gradient of"),
        (Scaled(1.3, 1.0), "above the bound"),
        (Scaled(1.0, 1.3), "above the bound"),
        (Mean(), "depends on other rows"),
        (Fragile(), "nan"),
    ],
)
def test_a_lying_layer_is_caught(layer, message):
    with pytest.raises(BoundViolation, match=message):
        check_model(model(SpectralDense(4), layer), LOSS, steps=12, starts=4)


def test_a_lying_layer_is_caught_in_a_frozen_model():
    frozen = model(Scaled(1.5, 1.5), units=4)
    frozen.trainable = False
    with pytest.raises(BoundViolation, match="difference of outputs"):
        check_model(frozen, LOSS)


def test_several_inputs():
    inputs = [keras.Input((3,)), keras.Input((2, 2))]
    balls = [BoundedInput((3,), radius=1.0)(inputs[0]), BoundedInput((2, 2), 2.0)(inputs[1])]
    joined = keras.layers.Concatenate()([balls[0], keras.layers.Flatten()(balls[1])])
    two = keras.Model(inputs, SpectralDense(2)(joined))
    assert check_model(two, MeanAbsoluteError(), starts=4).best > 0.95


def test_inputs_by_name():
    inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((3,), name="b")}
    balls = [BoundedInput((3,), radius=1.0)(t) for t in inputs.values()]
    named = keras.Model(inputs, SpectralDense(2)(keras.layers.Add()(balls)))
    assert check_model(named, MeanAbsoluteError(), starts=4).best > 0.9


def test_ids_and_positions():
    ids = keras.Input((5,), dtype="int32")
    vectors = SpectralDense(3)(BoundedEmbedding(8, 4)(ids))
    loss = PositionwiseLoss(LOSS, positions=5)
    assert check_model(keras.Model(ids, vectors), loss).best > 0.5


def test_double_precision():
    double = keras.Sequential(
        [BoundedInput((4,), 1.0, dtype="float64"), SpectralDense(3, dtype="float64")]
    )
    assert check_model(double, LOSS, starts=2).best > 0.9


def test_what_has_no_bound_is_refused():
    with pytest.raises(UnsupportedLayer):
        check_model(model(keras.layers.BatchNormalization()), LOSS)
    with pytest.raises(UnboundedGradient):
        check_model(model(keras.layers.Dense(4), keras.layers.Dense(4)), LOSS)


@pytest.mark.parametrize("options", [{"starts": 0}, {"steps": -1}])
def test_a_search_needs_starts(options):
    with pytest.raises(InvalidValue):
        check_model(model(), LOSS, **options)
