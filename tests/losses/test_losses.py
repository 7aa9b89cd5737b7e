import math

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point, per_sample_gradient_norms
from lipdp.errors import InvalidValue, LipdpError
from lipdp.losses import (
    HKR,
    LOSSES,
    BinaryHinge,
    ClippedLoss,
    CosineLoss,
    KantorovichRubinstein,
    LipschitzLoss,
    MeanAbsoluteError,
    MulticlassHinge,
    TemperedBinaryCrossentropy,
    TemperedCrossentropy,
)
from lipdp.rounding import unit_roundoff
from lipdp.testing import check_loss

CASES = [
    (TemperedCrossentropy(4.0), 10),
    (TemperedCrossentropy(64.0), 2),
    (TemperedCrossentropy(0.1), 3),
    (TemperedBinaryCrossentropy(3.0), 1),
    (MulticlassHinge(0.5), 5),
    (BinaryHinge(2.0), 1),
    (KantorovichRubinstein(), 1),
    (KantorovichRubinstein(), 7),
    (HKR(3.0, 0.5), 1),
    (HKR(3.0, 0.5), 7),
    (CosineLoss(0.5), 4),
    (MeanAbsoluteError(), 1),
    (MeanAbsoluteError(), 3),
    (ClippedLoss(TemperedCrossentropy(4.0), 0.5), 10),
    (ClippedLoss(TemperedCrossentropy(4.0), 5.0), 10),
    (ClippedLoss(MeanAbsoluteError(), 0.3), 3),
]
every_loss = pytest.mark.parametrize(
    ("loss", "outputs"), CASES, ids=lambda c: str(getattr(c, "name", c))
)


class Evaluator:
    """Values and logit gradients of a batch under one loss, compiled once."""

    def __init__(self, loss, shape):
        self.loss, self.point = loss, Point(shape, dtype=loss.dtype)
        self.probe = GradientProbe(
            self.point, lambda y: ops.sum(loss.call(y, self.point.value)), dtype=loss.dtype
        )

    def __call__(self, labels, logits):
        self.point.assign(np.asarray(logits, self.loss.dtype))
        value, (gradient,) = self.probe.probe(np.asarray(labels))
        return value, gradient


def gradient_of(loss, labels, logits):
    return Evaluator(loss, np.shape(logits))(labels, logits)


@every_loss
@pytest.mark.slow
@pytest.mark.parametrize("logit_bound", [0.7, 5.0, math.inf])
def test_harness(loss, outputs, logit_bound):
    assert check_loss(loss, outputs, logit_bound).best > 0.97


@pytest.mark.parametrize("loss", [TemperedCrossentropy(4.0), ClippedLoss(HKR(3.0, 0.5), 0.6)])
def test_harness_on_two_losses(loss):
    assert check_loss(loss, 4, 0.7).best > 0.97


@every_loss
def test_configuration_round_trip(loss, outputs):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()
    assert again.lipschitz(2.0, outputs) == loss.lipschitz(2.0, outputs)
    assert again.task == loss.task


@every_loss
def test_trains_under_plain_keras(loss, outputs):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 3))
    y = rng.integers(0, max(outputs, 2), 16)
    if loss.task == "regression":
        y = rng.normal(size=(16, outputs))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(outputs)])
    model.compile(optimizer="sgd", loss=loss)
    history = model.fit(x, y, batch_size=16, epochs=5, verbose=0).history["loss"]
    assert np.all(np.isfinite(history))
    assert history[-1] < history[0]


@every_loss
def test_one_value_a_sample(loss, outputs):
    y = np.zeros((6, outputs)) if loss.task == "regression" else np.zeros(6)
    assert tuple(loss.call(y, np.zeros((6, outputs), "float32")).shape) == (6,)


@every_loss
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_is_small_and_not_negative(loss, outputs, dtype):
    for bound in (0.0, 1.0, 1e3, math.inf):
        slack = loss.rounding(bound, outputs, unit_roundoff(dtype))
        assert 0 <= slack <= (1e-4 if dtype == "float32" else 1e-11)


@every_loss
def test_bad_bounds_are_refused(loss, outputs):
    for bound in (-1.0, math.nan):
        with pytest.raises(InvalidValue):
            loss.lipschitz(bound, outputs)


def test_registry_lists_every_loss():
    names = set(LOSSES.names())
    assert {"tempered_crossentropy", "hkr", "clipped_loss", "mean_absolute_error"} <= names
    for name in names:
        assert issubclass(LOSSES[name], LipschitzLoss)


# Values and gradients against formulas written in NumPy.

LOGITS = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [3.0, 3.0, -1.0]])
IDS = np.array([1, 0, 0])
SIGNS = 2 * np.eye(3)[IDS] - 1


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("tau", [0.5, 1.0, 8.0])
def test_crossentropy_formula(tau):
    value, gradient = gradient_of(TemperedCrossentropy(tau, dtype="float64"), IDS, LOGITS)
    p = softmax(tau * LOGITS)
    assert value == pytest.approx(-np.log(p[range(3), IDS]).sum() / tau, rel=1e-12)
    np.testing.assert_allclose(gradient, p - np.eye(3)[IDS], atol=1e-14)


def test_crossentropy_agrees_with_keras_on_soft_labels():
    labels = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    ours = TemperedCrossentropy(1.0, reduction="none", dtype="float64")(labels, LOGITS)
    theirs = keras.losses.CategoricalCrossentropy(
        from_logits=True, reduction="none", dtype="float64"
    )(labels, LOGITS)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_binary_crossentropy_formula():
    z, y, tau = np.array([[2.0], [-3.0], [0.0]]), np.array([1, 1, 0]), 2.0
    value, gradient = gradient_of(TemperedBinaryCrossentropy(tau, dtype="float64"), y, z)
    p = 1 / (1 + np.exp(-tau * z[:, 0]))
    expected = -(y * np.log(p) + (1 - y) * np.log(1 - p)).sum() / tau
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient[:, 0], p - y, atol=1e-14)


def test_multiclass_hinge_formula_and_ties():
    value, gradient = gradient_of(MulticlassHinge(1.0), IDS, LOGITS)
    assert value == pytest.approx((1 + 1 + 2) + (1 + 0) + (1 + 3 - 3))
    np.testing.assert_array_equal(gradient, [[1, -1, 0], [-1, 1, 0], [-1, 1, 0]])


def test_multiclass_hinge_is_flat_beyond_the_margin():
    value, gradient = gradient_of(MulticlassHinge(1.0), [0], [[5.0, 1.0, 4.0]])
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros((1, 3)))


def test_hinge_and_kr_take_labels_zero_and_one():
    z, y = np.array([[0.5], [0.5], [3.0]]), np.array([1, 0, 1])
    value, gradient = gradient_of(BinaryHinge(1.0), y, z)
    assert value == pytest.approx(0.5 + 1.5 + 0.0)
    np.testing.assert_array_equal(gradient[:, 0], [-1, 1, 0])
    value, gradient = gradient_of(KantorovichRubinstein(), y, z)
    assert value == pytest.approx(-0.5 + 0.5 - 3.0)
    np.testing.assert_array_equal(gradient[:, 0], [-1, 1, -1])
    value, _ = gradient_of(HKR(2.0, 1.0), y, z)
    assert value == pytest.approx(-3.0 + 2.0 * 2.0)


def test_multiclass_kr_and_hkr_are_means_over_classes():
    value, gradient = gradient_of(KantorovichRubinstein(), IDS, LOGITS)
    assert value == pytest.approx(-(SIGNS * LOGITS).mean(axis=1).sum(), rel=1e-6)
    np.testing.assert_allclose(gradient, -SIGNS / 3, rtol=1e-6)
    hinge = np.maximum(0, 1 - SIGNS * LOGITS)
    value, _ = gradient_of(HKR(2.0, 1.0), IDS, LOGITS)
    assert value == pytest.approx((2 * hinge - SIGNS * LOGITS).mean(axis=1).sum(), rel=1e-6)


def test_cosine_formula_inside_and_outside():
    z = np.array([[3.0, 4.0], [0.03, 0.04]])
    y = np.array([[1.0, 0.0], [0.0, 10.0]])
    value, gradient = gradient_of(CosineLoss(0.1, dtype="float64"), y, z)
    assert value == pytest.approx(-0.6 - 0.4)
    expected = [[-(1 - 0.36) / 5, 0.6 * 0.8 / 5], [0, -10]]
    np.testing.assert_allclose(gradient, expected, atol=1e-12)


def test_absolute_error_formula_and_exact_hit():
    z, y = np.array([[1.0, 2.0], [0.0, -1.0]]), np.array([[1.0, 5.0], [2.0, -7.0]])
    value, gradient = gradient_of(MeanAbsoluteError(), y, z)
    assert value == pytest.approx(1.5 + 4.0)
    np.testing.assert_array_equal(gradient, [[0, -0.5], [-0.5, 0.5]])


def test_clip_changes_the_gradient_only():
    inner = TemperedCrossentropy(4.0)
    value, gradient = gradient_of(inner, IDS, LOGITS)
    clipped_value, clipped = gradient_of(ClippedLoss(inner, 0.5), IDS, LOGITS)
    assert clipped_value == value
    norms = np.linalg.norm(gradient, axis=1, keepdims=True)
    np.testing.assert_allclose(clipped, gradient * np.minimum(1, 0.5 / norms), rtol=1e-6)


class Diverging(LipschitzLoss):
    """A loss whose derivative is 0/0 at 0."""

    def call(self, y_true, y_pred):
        return ops.sum(ops.sqrt(ops.abs(y_pred)), axis=-1)

    def lipschitz(self, logit_bound, num_outputs):
        return math.inf


def test_clip_removes_gradients_that_are_not_finite():
    _, gradient = gradient_of(ClippedLoss(Diverging(), 0.5), [0, 0], [[0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(gradient[0], [0, 0])
    assert np.linalg.norm(gradient[1]) == pytest.approx(0.5)
    assert ClippedLoss(Diverging(), 0.5).lipschitz(math.inf, 2) == 0.5


# The table of constants.


@pytest.mark.parametrize(
    ("loss", "bound", "outputs", "expected"),
    [
        (TemperedCrossentropy(64.0), 1.0, 10, math.sqrt(2)),
        (TemperedCrossentropy(1.0), 1.0, 10, 1.015),
        (TemperedCrossentropy(2.0), 2.0, 10, 1.326),
        (TemperedCrossentropy(1.0), 1.0, 2, 1.13764),
        (TemperedBinaryCrossentropy(2.0), 1.5, 1, 1 / (1 + math.exp(-3))),
        (TemperedBinaryCrossentropy(2.0), math.inf, 1, 1.0),
        (MulticlassHinge(3.0), 1.0, 4, math.sqrt(2)),
        (BinaryHinge(3.0), 1.0, 1, 1.0),
        (KantorovichRubinstein(), 1.0, 1, 1.0),
        (KantorovichRubinstein(), 1.0, 16, 0.25),
        (HKR(9.0, 1.0), 1.0, 1, 10.0),
        (HKR(9.0, 1.0), 1.0, 4, 5.0),
        (CosineLoss(0.25), 1.0, 4, 4.0),
        (MeanAbsoluteError(), 1.0, 4, 0.5),
        (ClippedLoss(HKR(9.0, 1.0), 0.5), 1.0, 4, 0.5),
        (ClippedLoss(HKR(9.0, 1.0), 7.0), 1.0, 4, 5.0),
    ],
)
def test_constants(loss, bound, outputs, expected):
    assert loss.lipschitz(bound, outputs) == pytest.approx(expected, abs=5e-4)


# Hostile labels and logits.


@every_loss
def test_empty_slots_give_exactly_nothing(loss, outputs):
    logits = np.random.default_rng(0).normal(size=(3, outputs))
    bad = [np.nan, np.inf, -np.inf]
    labels = np.array(bad) if loss.task != "regression" else np.tile(bad, (outputs, 1)).T
    value, gradient = gradient_of(loss, labels, logits)
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros((3, outputs)))


@every_loss
def test_logits_that_are_not_finite_give_nothing(loss, outputs):
    logits = np.full((3, outputs), [[np.nan], [np.inf], [-np.inf]])
    labels = np.zeros((3, outputs)) if loss.task == "regression" else np.zeros(3)
    value, gradient = gradient_of(loss, labels, logits)
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros((3, outputs)))


@pytest.mark.parametrize("label", [-1, 10, 2.5, 1e9])
def test_index_out_of_range_is_an_empty_slot(label):
    value, gradient = gradient_of(TemperedCrossentropy(1.0), [label, 3], np.ones((2, 10)))
    assert value == pytest.approx(math.log(10))
    np.testing.assert_array_equal(gradient[0], np.zeros(10))
    assert np.any(gradient[1])


@pytest.mark.parametrize("row", [[5, 0, 0], [1e38, 0, -3], [1e-25, 0, -1], [3e38, 0, 0]])
def test_soft_labels_are_put_on_the_simplex(row):
    _, hard = gradient_of(TemperedCrossentropy(1.0), [0], [[0.3, 1.0, -2.0]])
    _, soft = gradient_of(TemperedCrossentropy(1.0), [row], [[0.3, 1.0, -2.0]])
    np.testing.assert_allclose(soft, hard, atol=1e-7)


@pytest.mark.parametrize("row", [[0, 0, 0], [-1, -2, 0], [np.nan, 1, 0], [np.inf, 0, 0]])
def test_labels_without_mass_are_empty_slots(row):
    value, gradient = gradient_of(TemperedCrossentropy(1.0), [row], [[0.3, 1.0, -2.0]])
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros((1, 3)))


@pytest.mark.parametrize("size", [1.0, 3e38])
def test_compiled_by_xla(size):
    """Fused kernels replace divisions by reciprocals and flush subnormal numbers."""
    for loss, outputs in CASES[::2]:
        point = Point((4, outputs), dtype=loss.dtype)

        def total(y, loss=loss, point=point):
            return ops.sum(loss.call(y, point.value))

        point.assign(size * np.random.default_rng(0).uniform(-1, 1, (4, outputs)))
        labels = np.zeros((4, outputs)) if loss.task == "regression" else np.zeros(4)
        _, (gradient,) = GradientProbe(point, total, jit_compile=True).probe(labels)
        bound = loss.lipschitz(math.inf, outputs) * (1 + loss.rounding(math.inf, outputs, 2.0**-24))
        assert np.linalg.norm(gradient.astype("float64"), axis=1).max() <= bound


@pytest.fixture(scope="module")
def evaluators():
    return [(loss, Evaluator(loss, (4, outputs))) for loss, outputs in CASES]


@given(exponent=st.floats(-30, 38.5), seed=st.integers(0, 2**32 - 1))
def test_gradient_is_within_the_bound_for_all_finite_logits(evaluators, exponent, seed):
    rng = np.random.default_rng(seed)
    for loss, evaluate in evaluators:
        shape = tuple(evaluate.point.value.shape)
        logits = np.clip(rng.normal(size=shape) * 10.0**exponent, -3.4e38, 3.4e38)
        labels = rng.integers(0, max(2, shape[1]), 4)
        if loss.task == "regression":
            labels = rng.normal(size=shape) * 10.0 ** rng.integers(-30, 30)
        _, gradient = evaluate(labels.astype("float32"), logits)
        slack = loss.rounding(math.inf, shape[1], 2.0**-24)
        norms = np.linalg.norm(gradient.astype("float64"), axis=1)
        assert np.all(norms <= loss.lipschitz(math.inf, shape[1]) * (1 + slack))


def test_shape_of_binary_logits_does_not_matter():
    for loss in (BinaryHinge(1.0), KantorovichRubinstein(), TemperedBinaryCrossentropy(2.0)):
        column = loss.call(np.array([[0], [1]]), np.array([[0.3], [0.4]], "float32"))
        flat = loss.call(np.array([0, 1]), np.array([0.3, 0.4], "float32"))
        np.testing.assert_array_equal(column, flat)


@pytest.mark.parametrize(
    ("loss", "labels", "logits"),
    [
        (TemperedCrossentropy(1.0), (4,), (4, 1)),
        (MulticlassHinge(1.0), (4,), (4,)),
        (BinaryHinge(1.0), (4,), (4, 2)),
        (TemperedBinaryCrossentropy(1.0), (4,), (4, 2)),
        (TemperedCrossentropy(1.0), (4, 2), (4, 3)),
        (TemperedCrossentropy(1.0), (4,), (4, 5, 3)),
        (MeanAbsoluteError(), (4,), (4, 3)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(loss, labels, logits):
    with pytest.raises(InvalidValue):
        loss.call(np.zeros(labels), np.zeros(logits, "float32"))


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "x", None, 1e300])
@pytest.mark.parametrize(
    "make",
    [
        TemperedCrossentropy,
        TemperedBinaryCrossentropy,
        CosineLoss,
        lambda v: ClippedLoss(BinaryHinge(), v),
    ],
)
def test_options_out_of_range_are_refused(make, value):
    with pytest.raises(InvalidValue):
        make(value)


def test_zero_margin_and_alpha_are_allowed_and_negative_ones_are_not():
    HKR(0.0, 0.0)
    for make in (BinaryHinge, MulticlassHinge, HKR):
        with pytest.raises(InvalidValue):
            make(-0.1)


def test_only_losses_with_a_constant_can_be_clipped():
    with pytest.raises(LipdpError):
        ClippedLoss(keras.losses.MeanSquaredError(), 1.0)


def test_task_of_either_kind_depends_on_the_logits():
    assert KantorovichRubinstein().task_for(1) == "binary"
    assert KantorovichRubinstein().task_for(2) == "multiclass"
    assert ClippedLoss(BinaryHinge(), 1.0).task_for(1) == "binary"
    with pytest.raises(InvalidValue):
        ClippedLoss(BinaryHinge(), 1.0).task_for(2)


def test_whole_model_gradient_of_a_linear_layer():
    """Input of norm 1, no bias: the gradient of the kernel is exactly that of the logits."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(10, use_bias=False)])
    x = np.random.default_rng(0).normal(size=(5, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    norms = per_sample_gradient_norms(model, TemperedCrossentropy(64.0), x, np.arange(5))
    assert norms.max() <= math.sqrt(2) * (1 + 1e-5)
