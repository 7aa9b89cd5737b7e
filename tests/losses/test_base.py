"""What every loss guarantees."""

import math

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipdp import losses
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.errors import InvalidValue
from lipdp.losses import LOSSES, BinaryHinge, ClippedLoss, KantorovichRubinstein, LipschitzLoss
from lipdp.numerics import unit_roundoff


def stated(case, logit_bound, unit=2.0**-24):
    constant = case.loss.lipschitz(logit_bound, case.outputs)
    return constant * (1 + case.loss.rounding(logit_bound, case.outputs, unit))


def norms_of(gradient):
    return np.linalg.norm(gradient.reshape(len(gradient), -1), axis=1)


def test_every_public_loss_has_a_case(cases):
    public = set(losses.__all__) - {"LOSSES", "LipschitzLoss"}
    assert public == {type(case.loss).__name__ for case in cases}


def test_registry_lists_every_loss():
    found = {LOSSES[name].__name__ for name in LOSSES.names()}
    assert found == set(losses.__all__) - {"LOSSES", "LipschitzLoss"}
    assert all(issubclass(LOSSES[name], LipschitzLoss) for name in LOSSES.names())


def test_configuration_round_trip(case):
    loss = case.loss
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()
    assert again.lipschitz(2.0, case.outputs) == loss.lipschitz(2.0, case.outputs)
    assert (again.task, again.positions) == (loss.task, loss.positions)


@pytest.mark.slow
def test_trains_under_plain_keras(case):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, *case.shape[:-1], 3)), case.labels(16, rng)
    model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(case.outputs)])
    model.compile(optimizer="sgd", loss=case.loss)
    history = model.fit(x, y, batch_size=16, epochs=5, verbose=0).history["loss"]
    assert np.all(np.isfinite(history))
    assert history[-1] < history[0]


def test_one_value_a_sample(case):
    logits = np.zeros((6, *case.shape), "float32")
    assert tuple(case.loss.call(case.labels(6), logits).shape) == (6,)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_is_small_and_not_negative(case, dtype):
    for bound in (0.0, 1.0, 1e3, math.inf):
        slack = case.loss.rounding(bound, case.outputs, unit_roundoff(dtype))
        assert 0 <= slack <= (1e-4 if dtype == "float32" else 1e-11)


def test_bad_bounds_are_refused(case):
    for bound in (-1.0, math.nan):
        with pytest.raises(InvalidValue):
            case.loss.lipschitz(bound, case.outputs)


def test_own_row_only(case, evaluator):
    """Whatever the other rows hold, a row's gradient is the same to the last bit."""
    rng = np.random.default_rng(1)
    evaluate = evaluator(case.loss, (4, *case.shape))
    labels, logits = case.labels(4, rng), rng.normal(size=(4, *case.shape))
    before = evaluate(labels, logits)[1][0]
    for value in (0.0, 1e30, np.nan):
        labels[1:], logits[1:] = np.roll(labels[1:], 1, axis=0), value
        np.testing.assert_array_equal(evaluate(labels, logits)[1][0], before)
        labels[2:] = np.nan
        np.testing.assert_array_equal(evaluate(labels, logits)[1][0], before)


def test_labels_that_are_not_finite_make_empty_slots(case, evaluator):
    evaluate = evaluator(case.loss, (4, *case.shape))
    logits = np.random.default_rng(0).normal(size=(4, *case.shape))
    for bad in (np.nan, np.inf, -np.inf):
        value, gradient = evaluate(np.full_like(case.labels(4), bad), logits)
        assert value == 0
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


def test_logits_that_are_not_finite_give_nothing(case, evaluator):
    evaluate = evaluator(case.loss, (4, *case.shape))
    for bad in (np.nan, np.inf, -np.inf):
        value, gradient = evaluate(case.labels(4), np.full((4, *case.shape), bad))
        assert value == 0
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1.0, 3e38])
def test_compiled_by_xla(case, evaluator, size):
    """Fused kernels replace divisions by reciprocals and flush subnormal numbers."""
    evaluate = evaluator(case.loss, (4, *case.shape), jit_compile=True)
    logits = size * np.random.default_rng(0).uniform(-1, 1, (4, *case.shape))
    norms = norms_of(evaluate(case.labels(4), logits)[1])
    assert np.all(norms <= stated(case, np.linalg.norm(logits) if size == 1.0 else math.inf))


@pytest.fixture(scope="module")
def evaluators(cases, evaluator):
    return [(case, evaluator(case.loss, (4, *case.shape))) for case in cases]


@settings(max_examples=6)
@given(exponent=st.floats(-30, 38.5), seed=st.integers(0, 2**32 - 1))
def test_gradient_is_within_the_bound_for_all_finite_logits(evaluators, exponent, seed):
    rng = np.random.default_rng(seed)
    for case, evaluate in evaluators:
        logits = rng.normal(size=(4, *case.shape)) * 10.0**exponent
        logits = np.clip(logits, -3.4e38, 3.4e38).astype("float32")
        labels = case.labels(4, rng)
        if case.loss.task == "regression":
            labels = labels * np.float32(10.0 ** rng.integers(-30, 30))
        norms = norms_of(evaluate(labels, logits)[1])
        assert np.all(norms <= stated(case, math.inf))
        # Each row's own norm is a bound of it too; rounded up, for it is computed.
        for norm, row in zip(norms, logits, strict=True):
            assert norm <= stated(case, float(np.linalg.norm(row.astype("float64"))) * (1 + 1e-12))


def test_shape_of_binary_logits_does_not_matter(cases):
    for case in cases:
        if case.loss.task in ("binary", "either") and case.shape == (1,):
            column = case.loss.call(np.array([[0], [1]]), np.array([[0.3], [0.4]], "float32"))
            flat = case.loss.call(np.array([0, 1]), np.array([0.3, 0.4], "float32"))
            np.testing.assert_array_equal(column, flat)


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
    loss = losses.TemperedCrossentropy(64.0)
    norms = per_sample_gradient_norms(model, loss, x, np.arange(5))
    assert norms.max() <= math.sqrt(2) * (1 + 1e-5)
