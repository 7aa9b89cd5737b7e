"""A loss that computes in another precision than the layer in front of it."""

import keras
import numpy as np
import pytest

from lipdp.bounds import gradient_bounds
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.errors import UnsafeSetting
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.losses import (
    HKR,
    ClassWeighted,
    ClippedLoss,
    Huber,
    KantorovichRubinstein,
    MeanAbsoluteError,
    MeanSquaredError,
    MulticlassHinge,
    MultilabelBinaryCrossentropy,
    OneVersusAllHinge,
    TemperedCrossentropy,
)

OUTPUTS = 3
LOSSES = {
    "KantorovichRubinstein": KantorovichRubinstein,
    "MeanAbsoluteError": MeanAbsoluteError,
    "MeanSquaredError": lambda dtype: MeanSquaredError(1.0, dtype=dtype),
    "Huber": Huber,
    "HKR": lambda dtype: HKR(alpha=1.7, dtype=dtype),
    "OneVersusAllHinge": OneVersusAllHinge,
    "MulticlassHinge": MulticlassHinge,
    "MultilabelBinaryCrossentropy": lambda dtype: MultilabelBinaryCrossentropy(9.0, dtype=dtype),
    "TemperedCrossentropy": lambda dtype: TemperedCrossentropy(300.0, dtype=dtype),
    "ClippedLoss": lambda dtype: ClippedLoss(KantorovichRubinstein(dtype=dtype), 1 / 3),
    "ClassWeighted": lambda dtype: ClassWeighted(MulticlassHinge(dtype=dtype), (0.1, 0.7, 1.1)),
}
HALF = ("float16", "bfloat16", "mixed_float16", "mixed_bfloat16")


def net(dtype):
    return keras.Sequential(
        [BoundedInput((4,), radius=1.0, dtype=dtype), SpectralDense(OUTPUTS, dtype=dtype)]
    )


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("make", [KantorovichRubinstein, LOSSES["ClippedLoss"]])
@pytest.mark.parametrize("model", ["float32", "float64"])
def test_a_loss_of_half_precision_is_refused(make, dtype, model):
    with pytest.raises(UnsafeSetting, match=r"The loss .*float16"):
        gradient_bounds(net(model), make(dtype=dtype))


def test_so_is_one_inside_a_loss_of_float32():
    loss = ClippedLoss(KantorovichRubinstein(dtype="bfloat16"), 0.5, dtype="float32")
    with pytest.raises(UnsafeSetting, match=r"kantorovich_rubinstein.*bfloat16"):
        gradient_bounds(net("float32"), loss)


def labels_of(loss, rng, count):
    if loss.task == "regression":
        return rng.normal(size=(count, OUTPUTS)) * 10.0 ** rng.uniform(-2, 2, size=(count, 1))
    if loss.task == "multilabel":
        return rng.integers(0, 2, size=(count, OUTPUTS)).astype("float64")
    return rng.integers(0, OUTPUTS, size=count)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("model", "loss"), [("float64", "float32"), ("float32", "float64")])
def test_bounds_hold_where_keras_casts(name, model, loss):
    """As computed, casts included; ``1 / 3`` of float32 is above that of float64 by 3e-8."""
    made, built, rng = LOSSES[name](dtype=loss), net(model), np.random.default_rng(0)
    x = rng.normal(size=(40, 4)) * 10.0 ** rng.uniform(-1, 1, size=(40, 1))
    norms = per_sample_gradient_norms(built, made, x, labels_of(made, rng, len(x)))
    assert (norms <= np.asarray(gradient_bounds(built, made).parameters)).all()


@pytest.mark.parametrize("name", LOSSES)
def test_the_coarser_precision_counts(name):
    double, mixed, other = (
        gradient_bounds(net(model), LOSSES[name](dtype=loss)).total
        for model, loss in [("float64",) * 2, ("float64", "float32"), ("float32", "float64")]
    )
    assert 1.0 + 2.0**-24 <= mixed / double < 1.0 + 1e-3
    assert 1.0 + 2.0**-24 <= other / double < 1.0 + 1e-3
