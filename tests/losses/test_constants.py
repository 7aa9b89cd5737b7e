"""The table of constants, and the options that losses take."""

import math

import pytest

from lipdp.errors import InvalidValue
from lipdp.losses import (
    HKR,
    BinaryHinge,
    ClassWeighted,
    ClippedLoss,
    CosineLoss,
    Huber,
    KantorovichRubinstein,
    MeanAbsoluteError,
    MeanSquaredError,
    MulticlassHinge,
    MultilabelBinaryCrossentropy,
    OneVersusAllHinge,
    PositionwiseLoss,
    TemperedBinaryCrossentropy,
    TemperedCrossentropy,
)

ROOT2 = math.sqrt(2)


def sigmoid(t):
    return 1 / (1 + math.exp(-t))


@pytest.mark.parametrize(
    ("loss", "bound", "outputs", "expected"),
    [
        (TemperedCrossentropy(64.0), 1.0, 10, ROOT2),
        (TemperedCrossentropy(0.5), 1.0, 10, 0.989),
        (TemperedCrossentropy(1.0), 1.0, 10, 1.015),
        (TemperedCrossentropy(1.0), 2.0, 10, 1.081),
        (TemperedCrossentropy(2.0), 2.0, 10, 1.3259),
        (TemperedCrossentropy(4.0), 2.0, 10, 1.4127),
        (TemperedCrossentropy(1.0), 1.0, 2, ROOT2 * sigmoid(ROOT2)),
        (TemperedBinaryCrossentropy(2.0), 1.5, 1, sigmoid(3)),
        (TemperedBinaryCrossentropy(2.0, 0.2), 1.5, 1, sigmoid(3) - 0.1),
        (TemperedBinaryCrossentropy(2.0), math.inf, 1, 1.0),
        (MultilabelBinaryCrossentropy(2.0), 1.5, 1, sigmoid(3)),
        (MultilabelBinaryCrossentropy(2.0), 1.5, 9, sigmoid(1) / 3),
        (MultilabelBinaryCrossentropy(2.0), math.inf, 9, 1 / 3),
        (MulticlassHinge(3.0), 1.0, 4, ROOT2),
        (BinaryHinge(3.0), 1.0, 1, 1.0),
        (OneVersusAllHinge(3.0), 1.0, 16, 0.25),
        (KantorovichRubinstein(), 1.0, 1, 1.0),
        (KantorovichRubinstein(), 1.0, 16, 0.25),
        (HKR(9.0, 1.0), 1.0, 1, 10.0),
        (HKR(9.0, 1.0), 1.0, 4, 5.0),
        (CosineLoss(0.25), 1.0, 4, 4.0),
        (MeanAbsoluteError(), 1.0, 4, 0.5),
        (MeanSquaredError(3.0), 2.0, 4, 2.5),
        (MeanSquaredError(3.0), math.inf, 4, math.inf),
        (Huber(0.5), 2.0, 4, 0.25),
        (Huber(0.5), 0.1, 4, 0.25),
        (Huber(0.5, 3.0), 2.0, 4, 0.25),
        (Huber(5.0, 3.0), 2.0, 4, 1.25),
        (ClassWeighted(MulticlassHinge(), (0.5, 3.0, 1.0)), 1.0, 3, 3 * ROOT2),
        (PositionwiseLoss(MulticlassHinge(), 9), 1.0, 3, ROOT2 / 3),
        (PositionwiseLoss(MulticlassHinge(), 9, over_positions="sum"), 1.0, 3, ROOT2 * 3),
        (ClippedLoss(HKR(9.0, 1.0), 0.5), 1.0, 4, 0.5),
        (ClippedLoss(HKR(9.0, 1.0), 7.0), 1.0, 4, 5.0),
    ],
)
def test_constants(loss, bound, outputs, expected):
    digits = 5e-4 if isinstance(loss, TemperedCrossentropy) else 1e-12
    assert loss.lipschitz(bound, outputs) == pytest.approx(expected, abs=digits)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "x", None, 1e300])
@pytest.mark.parametrize(
    "make",
    [
        TemperedCrossentropy,
        TemperedBinaryCrossentropy,
        MultilabelBinaryCrossentropy,
        CosineLoss,
        MeanSquaredError,
        Huber,
        lambda v: ClippedLoss(BinaryHinge(), v),
    ],
)
def test_options_out_of_range_are_refused(make, value):
    with pytest.raises(InvalidValue):
        make(value)


@pytest.mark.parametrize("value", [-0.1, 1.0, math.nan, "x", None])
@pytest.mark.parametrize(
    "make", [TemperedCrossentropy, TemperedBinaryCrossentropy, MultilabelBinaryCrossentropy]
)
def test_smoothing_out_of_range_is_refused(make, value):
    with pytest.raises(InvalidValue, match="label_smoothing"):
        make(label_smoothing=value)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_target_bound_of_huber_out_of_range_is_refused(value):
    with pytest.raises(InvalidValue, match="target_bound"):
        Huber(1.0, target_bound=value)


def test_zero_margin_and_alpha_are_allowed_and_negative_ones_are_not():
    HKR(0.0, 0.0)
    for make in (BinaryHinge, MulticlassHinge, OneVersusAllHinge, HKR):
        with pytest.raises(InvalidValue):
            make(-0.1)
