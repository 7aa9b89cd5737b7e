"""Losses made of others: clipped, weighted, and over positions."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from lipdp.errors import InvalidValue, LipdpError
from lipdp.losses import (
    HKR,
    BinaryHinge,
    ClassWeighted,
    ClippedLoss,
    CosineLoss,
    LipschitzLoss,
    MeanAbsoluteError,
    MulticlassHinge,
    MultilabelBinaryCrossentropy,
    PositionwiseLoss,
    TemperedBinaryCrossentropy,
    TemperedCrossentropy,
)

LOGITS = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [3.0, 3.0, -1.0]])
IDS = np.array([1, 0, 0])
INNER = TemperedCrossentropy(4.0)


class Diverging(LipschitzLoss):
    """A loss whose derivative is 0/0 at 0."""

    def call(self, y_true, y_pred):
        return ops.sum(ops.sqrt(ops.abs(y_pred)), axis=-1)

    def lipschitz(self, logit_bound, num_outputs):
        return math.inf


def test_clip_changes_the_gradient_only(gradient_of):
    value, gradient = gradient_of(INNER, IDS, LOGITS)
    clipped_value, clipped = gradient_of(ClippedLoss(INNER, 0.5), IDS, LOGITS)
    assert clipped_value == value
    norms = np.linalg.norm(gradient, axis=1, keepdims=True)
    np.testing.assert_allclose(clipped, gradient * np.minimum(1, 0.5 / norms), rtol=1e-6)


def test_clip_removes_gradients_that_are_not_finite(gradient_of):
    _, gradient = gradient_of(ClippedLoss(Diverging(), 0.5), [0, 0], [[0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(gradient[0], [0, 0])
    assert np.linalg.norm(gradient[1]) == pytest.approx(0.5)
    assert ClippedLoss(Diverging(), 0.5).lipschitz(math.inf, 2) == 0.5


def test_clip_over_positions_is_of_the_whole_sample(gradient_of):
    inner = PositionwiseLoss(KR, 4, over_positions="sum")
    labels, logits = np.zeros((2, 4)), np.zeros((2, 4, 3))
    _, plain = gradient_of(inner, labels, logits)
    _, clipped = gradient_of(ClippedLoss(inner, 0.5), labels, logits)
    np.testing.assert_allclose(np.linalg.norm(clipped.reshape(2, -1), axis=1), 0.5, rtol=1e-6)
    np.testing.assert_allclose(clipped, plain * 0.5 / np.linalg.norm(plain[0]), rtol=1e-6)
    assert ClippedLoss(inner, 0.5).positions == 4


KR = HKR(0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda inner: ClippedLoss(inner, 1.0),
        lambda inner: ClassWeighted(inner, [1.0, 2.0]),
        lambda inner: PositionwiseLoss(inner, 2),
    ],
)
@pytest.mark.parametrize("inner", [keras.losses.MeanSquaredError(), "mse", None, 3])
def test_only_losses_with_a_constant_can_be_wrapped(make, inner):
    with pytest.raises(LipdpError):
        make(inner)


@pytest.mark.parametrize(
    "make", [lambda x: PositionwiseLoss(x, 2), lambda x: ClassWeighted(x, [1.0, 2.0, 3.0])]
)
@pytest.mark.parametrize(
    "inner", [ClippedLoss(INNER, 0.5), PositionwiseLoss(INNER, 2), ClippedLoss(KR, 9.0)]
)
def test_a_clip_must_be_outermost_and_positions_may_not_nest(make, inner):
    with pytest.raises(InvalidValue):
        make(inner)


def test_a_clip_inside_would_undo_the_scale(gradient_of):
    """The reason for the refusal: half of the loss has not half of the gradient."""
    _, whole = gradient_of(ClippedLoss(INNER, 0.1), IDS, LOGITS)

    class Half(ClippedLoss):
        def call(self, y_true, y_pred):
            return 0.5 * super().call(y_true, y_pred)

    _, half = gradient_of(Half(INNER, 0.1), IDS, LOGITS)
    np.testing.assert_allclose(half, whole, rtol=1e-5)


# Class weights.


def test_weights_multiply_value_and_gradient(gradient_of):
    weights = np.array([2.0, 0.25, 7.0])
    value, gradient = gradient_of(ClassWeighted(INNER, weights), IDS, LOGITS)
    parts = [gradient_of(INNER, IDS[i : i + 1], LOGITS[i : i + 1]) for i in range(3)]
    assert value == pytest.approx(sum(weights[y] * v for y, (v, _) in zip(IDS, parts, strict=True)))
    expected = [weights[y] * g[0] for y, (_, g) in zip(IDS, parts, strict=True)]
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_weights_of_one_logit(gradient_of):
    _, gradient = gradient_of(
        ClassWeighted(BinaryHinge(1.0), [2.0, 0.5]), [0, 1, 0.5], np.zeros((3, 1))
    )
    np.testing.assert_array_equal(gradient[:, 0], [2.0, -0.5, 0.0])


def test_soft_labels_average_the_weights(gradient_of):
    labels = np.array([[0.5, 0.25, 0.25]])
    _, plain = gradient_of(INNER, labels, LOGITS[:1])
    _, weighted = gradient_of(ClassWeighted(INNER, [2.0, 4.0, 8.0]), labels, LOGITS[:1])
    np.testing.assert_allclose(weighted, 4.0 * plain, rtol=1e-6)


def test_greatest_weight_is_attained_and_soft_labels_stay_inside(gradient_of):
    loss = ClassWeighted(TemperedCrossentropy(1.0), [1e-3, 5.0])
    rng = np.random.default_rng(0)
    labels = np.vstack([np.eye(2), rng.dirichlet([0.3, 0.3], 62)]).astype("float32")
    logits = np.tile([[0.7, -0.7]], (64, 1)) * (1 - 1e-6)
    norms = np.linalg.norm(gradient_of(loss, labels, logits)[1], axis=1)
    bound = loss.lipschitz(0.7 * math.sqrt(2), 2)
    assert bound * (1 - 1e-5) < norms.max() <= bound * (1 + loss.rounding(1.0, 2, 2.0**-24))
    assert np.argmax(norms) == 1


def test_labels_off_the_simplex_are_empty_slots_under_weights(gradient_of):
    value, gradient = gradient_of(ClassWeighted(CosineLoss(), [1.0, 2.0]), [[0.6, 0.8]], [[1.0, 0]])
    assert value == 0
    np.testing.assert_array_equal(gradient, [[0, 0]])


@pytest.mark.parametrize(
    "weights",
    [
        [],
        [-1.0, 1.0],
        [math.nan, 1.0],
        [math.inf, 1.0],
        [0.0, 0.0],
        3.0,
        {0: 1.0},
        "ab",
        [[1], [2]],
    ],
)
def test_weights_out_of_range_are_refused(weights):
    with pytest.raises(InvalidValue):
        ClassWeighted(TemperedBinaryCrossentropy(), weights)


def test_number_of_weights_must_fit():
    for weights in ([1.0], [1.0, 2.0]):
        loss = ClassWeighted(INNER, weights)
        with pytest.raises(InvalidValue, match="one weight a class"):
            loss.lipschitz(1.0, 3)
        with pytest.raises(InvalidValue, match="one weight a class"):
            loss.call(IDS, LOGITS)


@pytest.mark.parametrize("inner", [MeanAbsoluteError(), MultilabelBinaryCrossentropy()])
def test_losses_without_one_class_a_sample_take_no_weights(inner):
    with pytest.raises(InvalidValue):
        ClassWeighted(inner, [1.0, 2.0])


# Positions.


@pytest.mark.parametrize("over", ["mean", "sum"])
def test_positions_are_averaged_or_summed(gradient_of, over):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(2, 4, 3)), rng.integers(0, 3, (2, 4))
    flat_value, flat = gradient_of(INNER, labels.ravel(), logits.reshape(8, 3))
    value, gradient = gradient_of(PositionwiseLoss(INNER, 4, over), labels, logits)
    scale = 0.25 if over == "mean" else 1.0
    assert value == pytest.approx(scale * flat_value, rel=1e-6)
    np.testing.assert_allclose(gradient, scale * flat.reshape(2, 4, 3), rtol=1e-6)
    hot = np.eye(3)[labels]
    again = gradient_of(PositionwiseLoss(INNER, 4, over), hot, logits)[1]
    np.testing.assert_allclose(again, gradient, atol=1e-6)


@pytest.mark.parametrize("over", ["mean", "sum"])
@pytest.mark.parametrize("inner", [MulticlassHinge(1.0), KR], ids=lambda x: x.name)
def test_constant_over_positions_is_attained(gradient_of, over, inner):
    loss = PositionwiseLoss(inner, 7, over)
    _, gradient = gradient_of(loss, np.zeros((1, 7)), np.zeros((1, 7, 5)))
    bound, norm = loss.lipschitz(1.0, 5), np.linalg.norm(gradient)
    assert bound * (1 - 1e-6) < norm <= bound * (1 + loss.rounding(1.0, 5, 2.0**-24))


def test_an_invalid_position_contributes_nothing_and_leaves_the_others(gradient_of):
    loss = PositionwiseLoss(TemperedCrossentropy(1.0), 3)
    labels, logits = np.array([[0, -1, 1], [9, 0, 1.5]]), np.zeros((2, 3, 2))
    logits[1, 1] = np.nan
    value, gradient = gradient_of(loss, labels, logits)
    assert value == pytest.approx(2 * math.log(2) / 3)
    half = 0.5 / 3
    expected = [[[-half, half], [0, 0], [half, -half]], np.zeros((3, 2))]
    np.testing.assert_allclose(gradient, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("labels", "logits"),
    [((4,), (4, 3)), ((4, 3), (4, 5, 2)), ((4, 5), (4, 3, 2)), ((4,), (4, 3, 2)), ((12,), (12, 2))],
)
def test_other_positions_are_refused(labels, logits):
    with pytest.raises(InvalidValue):
        PositionwiseLoss(INNER, 3).call(np.zeros(labels), np.zeros(logits, "float32"))


@pytest.mark.parametrize("positions", [0, -1, 2.0, True, None])
def test_bad_positions_are_refused(positions):
    with pytest.raises(InvalidValue):
        PositionwiseLoss(INNER, positions)


def test_bad_reductions_are_refused():
    with pytest.raises(InvalidValue):
        PositionwiseLoss(INNER, 3, over_positions="max")
