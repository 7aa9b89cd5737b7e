"""Labels in the graph, where nothing may raise on data, and on the host, where it must."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lipdp.errors import InvalidData, InvalidValue
from lipdp.losses import (
    BinaryHinge,
    ClassWeighted,
    ClippedLoss,
    CosineLoss,
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

CE = TemperedCrossentropy(1.0)
POINT = [[0.3, 1.0, -2.0]]
OFF_SIMPLEX = [
    [5, 0, 0],
    [1, 1, 0],
    [0.3, 0.3, 0.3],
    [1.1, -0.1, 0],
    [0, 0, 0],
    [-1, -2, 0],
    [math.nan, 1, 0],
    [math.inf, 0, 0],
    [3e38, 3e38, 0],
    [3e38, -3e38, 1],
]


def test_index_out_of_range_is_an_empty_slot(gradient_of):
    value, gradient = gradient_of(CE, [-1, 10, 2.5, 1e9, 3], np.ones((5, 10)))
    assert value == pytest.approx(math.log(10))
    np.testing.assert_array_equal(gradient[:4], np.zeros((4, 10)))
    assert np.any(gradient[4])


@pytest.mark.parametrize("loss", [CE, MulticlassHinge(), KantorovichRubinstein()])
def test_weights_off_the_simplex_are_empty_slots(gradient_of, loss):
    rows = np.array(OFF_SIMPLEX)
    value, gradient = gradient_of(loss, rows, np.tile(POINT, (len(rows), 1)))
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros((len(rows), 3)))


def test_rounding_of_the_simplex_is_removed(gradient_of):
    rows = [[1, 0, 0], [1.0009, 0, 0], [0.9991, 0, 0], [1, -9e-7, 0], [1, 1e-30, 0]]
    _, gradient = gradient_of(CE, rows, POINT * 5)
    _, hard = gradient_of(CE, [0], POINT)
    np.testing.assert_allclose(gradient, np.tile(hard, (5, 1)), atol=1e-7)


@pytest.fixture(scope="module")
def soft(evaluator):
    loss = TemperedCrossentropy(1.0)
    return loss, evaluator(loss, (4, 3))


@settings(max_examples=40)
@given(st.lists(st.floats(-2e-6, 1.002), min_size=3, max_size=3), st.floats(0, 5))
@example([1.001, -1e-6, 0.0], 5.0)
@example([1.0, 1e-3, 0.0], 5.0)
def test_labels_near_the_simplex_stay_within_the_constant(soft, weights, size):
    loss, evaluate = soft
    logits = np.array([[-1, 1, 0], [1, -1, 0], [0, -1, 1], [0.0, 0, 0]]) * size / math.sqrt(2)
    labels = np.tile(weights, (4, 1))
    labels[2:] /= max(np.abs(labels[0]).sum(), 1e-30)
    norms = np.linalg.norm(evaluate(labels.astype("float32"), logits)[1], axis=1)
    radius = size * (1 + 1e-6)
    assert norms.max() <= loss.lipschitz(radius, 3) * (1 + loss.rounding(radius, 3, 2.0**-24))


@pytest.mark.parametrize(
    ("loss", "labels", "logits"),
    [
        (CE, (4,), (4, 1)),
        (CE, (4, 2), (4, 3)),
        (CE, (4,), (4, 5, 3)),
        (CE, (4, 5, 3), (4, 3)),
        (MulticlassHinge(), (4,), (4,)),
        (OneVersusAllHinge(), (4,), (4,)),
        (BinaryHinge(), (4,), (4, 2)),
        (TemperedBinaryCrossentropy(), (4,), (4, 2)),
        (MultilabelBinaryCrossentropy(), (4,), (4, 2)),
        (MeanAbsoluteError(), (4,), (4, 3)),
        (MeanSquaredError(1.0), (4,), (4, 3)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(loss, labels, logits):
    with pytest.raises(InvalidValue):
        loss.call(np.zeros(labels), np.zeros(logits, "float32"))


# On the host.

UNIT = np.array([[0.6, 0.8], [3.0, -4.0]])
POSITIONS = PositionwiseLoss(CE, 2)


@pytest.mark.parametrize(
    ("loss", "labels", "outputs"),
    [
        (CE, [0, 2, 1], 3),
        (CE, np.array([[0], [2]], "uint8"), 3),
        (CE, [[0.2, 0.3, 0.5], [1, 0, 0]], 3),
        (CE, np.eye(3, dtype=bool), 3),
        (CE, np.full((1, 1000), 1e-3, "float32"), 1000),
        (TemperedBinaryCrossentropy(), [0, 1, 0.5], 1),
        (KantorovichRubinstein(), [-1, 1, 0], 1),
        (KantorovichRubinstein(), [0, 2], 3),
        (BinaryHinge(), [[-1], [1]], 1),
        (MultilabelBinaryCrossentropy(), [[0, 1], [1, 1]], 2),
        (MeanAbsoluteError(), [-3.0, 1e6], 1),
        (MeanSquaredError(1.0), UNIT, 2),
        (CosineLoss(), UNIT, 2),
        (CosineLoss(), [0, 1], 2),
        (ClassWeighted(CE, [1.0, 2.0]), [0, 1], 2),
        (ClippedLoss(CE, 1.0), [0, 1], 2),
        (POSITIONS, [[0, 2], [1, -1]], 3),
        (POSITIONS, [[[0], [2]], [[1], [-1]]], 3),
        (POSITIONS, [[-1, -1]], 3),
        (CE, np.zeros((0, 3)), 3),
        (POSITIONS, np.eye(4).reshape(2, 2, 4), 4),
        (ClippedLoss(POSITIONS, 1.0), [[0, 2], [1, -1]], 3),
    ],
)
def test_good_labels_pass(loss, labels, outputs):
    loss.check_labels(np.asarray(labels), outputs)


@pytest.mark.parametrize(
    ("loss", "labels", "outputs", "message"),
    [
        (CE, [0, 3, -1, 1], 3, "2 of 4 rows .* no class id"),
        (CE, [0.5, 1, math.nan], 3, "2 of 3 rows .* no class id"),
        (CE, OFF_SIMPLEX, 3, "10 of 10 rows .* not on the simplex"),
        (CE, [[0.5, 0.25], [1, 0]], 2, "1 of 2 rows .* not on the simplex"),
        (CE, np.zeros((4, 2)), 3, r"shape.*\(4, 2\)"),
        (CE, np.zeros((4, 2, 3)), 3, r"shape.*\(4, 2, 3\)"),
        (CE, np.zeros(()), 3, "shape"),
        (CE, ["a", "b"], 3, "not numbers"),
        (TemperedBinaryCrossentropy(), [-1, 1], 1, "1 of 2 rows .* outside"),
        (TemperedBinaryCrossentropy(), [math.nan, 1.01], 1, "2 of 2 rows .* outside"),
        (KantorovichRubinstein(), [-0.5, 1, 2], 1, "2 of 3 rows .* neither -1 nor"),
        (KantorovichRubinstein(), [[-1, 1], [1, 0]], 2, "1 of 2 rows .* not on the simplex"),
        (BinaryHinge(), [math.inf], 1, "1 of 1 rows"),
        (MultilabelBinaryCrossentropy(), [[0, 2], [math.nan, 5], [0, 1]], 2, "2 of 3 rows"),
        (MultilabelBinaryCrossentropy(), [0, 1], 2, "shape"),
        (MeanAbsoluteError(), [math.inf, math.nan, 1e31, 0], 1, "3 of 4 rows .* not finite"),
        (MeanSquaredError(1.0), [0, 1], 2, "shape"),
        (CosineLoss(), [[math.nan, 1.0]], 2, "1 of 1 rows .* not finite"),
        (CosineLoss(), [2], 2, "1 of 1 rows .* no class id"),
        (ClassWeighted(CosineLoss(), [1.0, 2.0]), UNIT, 2, "2 of 2 rows .* not on the simplex"),
        (ClippedLoss(CE, 1.0), [9], 2, "1 of 1 rows"),
        (POSITIONS, [[0, 3], [1, -2]], 3, "2 of 4 rows"),
        (POSITIONS, [0, 1], 3, "positions"),
        (POSITIONS, [[0, 1, 2]], 3, "positions"),
        (PositionwiseLoss(TemperedBinaryCrossentropy(), 2), [[0, -1]], 1, "1 of 2 rows"),
    ],
)
def test_bad_labels_are_counted(loss, labels, outputs, message):
    with pytest.raises(InvalidData, match=message):
        loss.check_labels(np.asarray(labels), outputs)


def test_messages_show_no_record():
    secret = np.array([0.0, 123456.0])
    for loss, outputs in [(CE, 3), (BinaryHinge(), 1), (TemperedBinaryCrossentropy(), 1)]:
        with pytest.raises(InvalidData) as caught:
            loss.check_labels(secret, outputs)
        assert "123456" not in str(caught.value)


def test_numbers_of_logits_without_meaning_are_refused():
    with pytest.raises(InvalidValue, match="not defined"):
        CE.check_labels(np.zeros(3), 1)


@settings(max_examples=40)
@given(st.floats(-5e-6, 0.5), st.floats(0, 0.5), st.floats(-2e-3, 2e-3))
@example(-2e-6, 0.1, 0.0)
@example(0.1, 0.1, 1.1e-3)
@example(0.1, 0.1, 0.9e-3)
def test_host_and_graph_agree_on_the_simplex(soft, first, second, error):
    """Apart from the last digits of the tolerance, where float32 may decide otherwise."""
    row = np.array([[first, second, 1.0 - first - second + error]], "float32")
    near_edge = abs(abs(row.astype("float64").sum() - 1) - 1e-3) < 1e-6
    if near_edge or abs(row.min() + 1e-6) < 1e-9:
        return
    gradient = soft[1](np.repeat(row, 4, axis=0), np.tile(POINT, (4, 1)))[1]
    try:
        CE.check_labels(row, 3)
    except InvalidData:
        assert not gradient.any()
    else:
        assert gradient.any()
