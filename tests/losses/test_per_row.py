"""A loss that returns one number for the batch would count it once a row."""

import keras
import numpy as np
import pytest
from keras import ops

import lipdp
from lipdp.errors import UnsupportedLayer
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.losses import ClassWeighted, ClippedLoss, LipschitzLoss, PositionwiseLoss
from lipdp.losses.base import per_row
from lipdp.testing import check_loss, check_model

SHAPES = {
    "a number": ops.mean,
    "a number in a row": lambda values: ops.reshape(ops.mean(values), (1,)),
    "a number in a table": lambda values: ops.reshape(ops.mean(values), (1, 1)),
    "a row": lambda values: values[None, :],
    "a table": lambda values: ops.stack([values, values], axis=-1),
    "half": lambda values: values[: values.shape[0] // 2],
    "twice": lambda values: ops.concatenate([values, values]),
}
WRAPPERS = {
    "itself": lambda loss: loss,
    "clipped": lambda loss: ClippedLoss(loss, 0.5),
    "weighted": lambda loss: ClassWeighted(loss, [1.0, 2.0]),
}


class Own(LipschitzLoss):
    """Half the softplus of the margin, in the shape that the test wants."""

    task = "multiclass"

    def __init__(self, shape, **kwargs):
        super().__init__(**kwargs)
        self.shape = shape

    def call(self, y_true, y_pred):
        sign = 2.0 * ops.cast(ops.reshape(y_true, (-1,)), y_pred.dtype) - 1.0
        return self.shape(0.5 * ops.softplus(-sign * (y_pred[:, 1] - y_pred[:, 0])))

    def lipschitz(self, logit_bound, num_outputs):
        return 1.0


def trained(loss, rows=40, **options):
    model = lipdp.Sequential([BoundedInput((4,), 1.0), SpectralDense(2)])
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    model.compile(keras.optimizers.SGD(0.1), loss, privacy=budget, **options)
    x = np.random.default_rng(0).normal(size=(rows, 4))
    model.fit(x, (x[:, 0] > 0) * 1, batch_size=20, verbose=0)
    return model


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_other_shapes_are_refused(shape, wrap):
    loss, labels = WRAPPERS[wrap](Own(SHAPES[shape])), np.array([0, 1, 1, 0])
    with pytest.raises(UnsupportedLayer, match="one value a row"):
        logits = ops.convert_to_tensor(np.ones((4, 2), "float32"))
        per_row(loss.call(labels, logits), logits)


def test_so_they_are_over_positions():
    loss = PositionwiseLoss(Own(ops.mean), positions=3)
    with pytest.raises(UnsupportedLayer, match="one value a row"):
        loss.call(np.zeros((4, 3)), ops.ones((4, 3, 2)))


@pytest.mark.parametrize(
    ("shape", "eager", "wrap"),
    [
        ("a number", False, "itself"),
        ("a number", True, "weighted"),
        ("a number in a row", False, "clipped"),
        ("twice", True, "itself"),
    ],
)
def test_a_private_fit_refuses_them(shape, eager, wrap):
    with pytest.raises(UnsupportedLayer, match="one value a row"):
        trained(WRAPPERS[wrap](Own(SHAPES[shape])), run_eagerly=eager)


def test_checks_refuse_them():
    with pytest.raises(UnsupportedLayer, match="one value a row"):
        check_loss(Own(ops.mean), 2, 1.0)
    model = keras.Sequential([BoundedInput((4,), 1.0), SpectralDense(2)])
    with pytest.raises(UnsupportedLayer, match="one value a row"):
        check_model(model, Own(ops.mean), steps=1, starts=1)


@pytest.mark.parametrize("shape", [lambda values: values, lambda values: values[:, None]])
def test_one_value_a_row_trains(shape):
    weights = trained(Own(shape)).get_weights()
    assert all(np.isfinite(weight).all() for weight in weights)
