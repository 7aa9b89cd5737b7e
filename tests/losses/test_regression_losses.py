"""Absolute, squared and Huber error, and the cosine."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipdp.losses import CosineLoss, Huber, MeanAbsoluteError, MeanSquaredError

Z = np.array([[1.0, 2.0], [0.0, -1.0]])
Y = np.array([[1.0, 2.5], [0.3, -7.0]])


def test_absolute_error_formula_and_exact_hit(gradient_of):
    value, gradient = gradient_of(MeanAbsoluteError(), Y, Z)
    assert value == pytest.approx(0.25 + 3.15)
    np.testing.assert_array_equal(gradient, [[0, -0.5], [-0.5, 0.5]])


def test_squared_error_formula(gradient_of):
    value, gradient = gradient_of(MeanSquaredError(100.0, dtype="float64"), Y, Z)
    assert value == pytest.approx(((Z - Y) ** 2).mean(axis=1).sum(), rel=1e-14)
    np.testing.assert_allclose(gradient, Z - Y, rtol=1e-14)


@pytest.mark.parametrize("target_bound", [None, 100.0])
def test_huber_formula(gradient_of, target_bound):
    value, gradient = gradient_of(Huber(0.5, target_bound, dtype="float64"), Y, Z)
    d = Z - Y
    terms = np.where(np.abs(d) <= 0.5, d**2 / 2, 0.5 * (np.abs(d) - 0.25))
    assert value == pytest.approx(terms.mean(axis=1).sum(), rel=1e-14)
    np.testing.assert_allclose(gradient, np.clip(d, -0.5, 0.5) / 2, rtol=1e-14)


@pytest.mark.parametrize(("loss", "slope"), [(MeanSquaredError(2.0), 2), (Huber(1e9, 2.0), 1)])
def test_targets_are_projected_on_the_ball(gradient_of, loss, slope):
    """The whole target in Euclidean norm, which no float32 square may decide."""
    inside, huge = [0.6, 0.8, 0.0], [3e38, 3e38, 0.0]
    targets = [inside, *([3 * s, 4 * s, 0.0] for s in (1.0, 1e15, 1e29)), huge]
    _, gradient = gradient_of(loss, np.array(targets), np.zeros((5, 3)))
    expected = [inside, *[[1.2, 1.6, 0.0]] * 3, [math.sqrt(2), math.sqrt(2), 0.0]]
    np.testing.assert_allclose(gradient, -slope / 3 * np.array(expected), rtol=1e-6)


@pytest.mark.parametrize("loss", [MeanSquaredError(3.0, dtype="float64"), Huber(9.0, 3.0)])
def test_constant_is_attained_at_the_opposite_target(gradient_of, loss):
    z = np.array([[1.2, -1.6]])
    _, gradient = gradient_of(loss, -1e6 * z, z)
    assert np.linalg.norm(gradient) == pytest.approx(loss.lipschitz(2.0, 2), rel=1e-6)


@pytest.fixture(scope="module")
def bounded(evaluator):
    made = [MeanSquaredError(0.3), MeanSquaredError(1e3), Huber(0.1, 0.3), Huber(1e3, 0.3)]
    return [(loss, evaluator(loss, (8, 5))) for loss in made]


@settings(max_examples=15)
@given(st.floats(-6, 3), st.floats(-6, 6), st.integers(0, 2**32 - 1))
def test_nothing_in_the_ball_exceeds_the_constant(bounded, log_radius, log_target, seed):
    rng, radius = np.random.default_rng(seed), 10.0**log_radius
    z = rng.normal(size=(8, 5))
    z = (z * radius * (1 - 1e-6) / np.linalg.norm(z, axis=1, keepdims=True)).astype("float32")
    y = -z * np.float32(10.0**log_target) + (rng.random((8, 1)) < 0.5) * rng.normal(size=(8, 5))
    for loss, evaluate in bounded:
        norms = np.linalg.norm(evaluate(y.astype("float32"), z)[1], axis=1)
        assert norms.max() <= loss.lipschitz(radius, 5) * (1 + loss.rounding(radius, 5, 2.0**-24))


def test_cosine_formula_inside_and_outside(gradient_of):
    z = np.array([[3.0, 4.0], [0.03, 0.04]])
    y = np.array([[1.0, 0.0], [0.0, 10.0]])
    value, gradient = gradient_of(CosineLoss(0.1, dtype="float64"), y, z)
    assert value == pytest.approx(-0.6 - 0.4)
    expected = [[-(1 - 0.36) / 5, 0.6 * 0.8 / 5], [0, -10]]
    np.testing.assert_allclose(gradient, expected, atol=1e-12)


def test_cosine_at_zero_and_at_its_kink(gradient_of):
    _, gradient = gradient_of(CosineLoss(0.5), [[3.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.5, 0.0]])
    np.testing.assert_allclose(gradient, [[-2, 0], [0, -2]], rtol=1e-6)
    assert CosineLoss(0.5).lipschitz(math.inf, 2) == 2.0
