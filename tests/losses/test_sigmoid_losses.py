"""Binary cross-entropy on one logit and on several."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.losses import MultilabelBinaryCrossentropy, TemperedBinaryCrossentropy


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("columns", [1, 3])
def test_formula(gradient_of, smoothing, columns):
    make = TemperedBinaryCrossentropy if columns == 1 else MultilabelBinaryCrossentropy
    z = np.array([[2.0, -3.0, 0.0], [-3.0, 0.1, 40.0], [0.0, 0.0, -1.0]])[:, :columns]
    y, tau = np.array([[1, 0, 0.5], [1, 1, 1], [0, 0, 1]])[:, :columns], 2.0
    value, gradient = gradient_of(make(tau, smoothing, dtype="float64"), y, z)
    p, t = sigmoid(tau * z), (1 - smoothing) * y + smoothing / 2
    expected = np.logaddexp(0, tau * z) - t * tau * z
    assert value == pytest.approx(expected.sum() / tau / columns, rel=1e-12)
    np.testing.assert_allclose(gradient, (p - t) / columns, atol=1e-14)


@given(st.floats(0, 30), st.integers(1, 12), st.floats(0, 0.99), st.integers(0, 2**32 - 1))
@example(1.0, 10, 0.0, 0)
@example(0.5, 3, 0.99, 1)
def test_no_logits_of_the_ball_exceed_the_constant(radius, outputs, smoothing, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(300, outputs)) * rng.integers(0, 2, (300, outputs))
    z[100:] = 1.0 + rng.normal(size=(200, outputs)) * 10.0 ** rng.uniform(-3, 0, (200, 1))
    z *= radius / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
    y = np.where(z > 0, smoothing / 2, 1 - smoothing / 2)
    norms = np.linalg.norm(sigmoid(z) - y, axis=1) / outputs
    bound = MultilabelBinaryCrossentropy(1.0, smoothing).lipschitz(radius, outputs)
    assert norms.max() <= bound * (1 + 1e-15)


@pytest.mark.parametrize("outputs", [1, 9])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_constant_is_attained_at_equal_logits(gradient_of, outputs, smoothing):
    loss = MultilabelBinaryCrossentropy(2.0, smoothing, dtype="float64")
    logits = np.full((1, outputs), -0.8 / math.sqrt(outputs))
    norm = np.linalg.norm(gradient_of(loss, np.ones((1, outputs)), logits)[1])
    assert norm == pytest.approx(loss.lipschitz(0.8, outputs), rel=1e-12)


def test_one_label_that_is_not_finite_makes_the_sample_an_empty_slot(gradient_of):
    loss = MultilabelBinaryCrossentropy(2.0)
    labels = np.array([[1.0, np.nan], [1.0, 0.0]])
    value, gradient = gradient_of(loss, labels, np.zeros((2, 2)))
    assert value == pytest.approx(math.log(2) / 2)
    np.testing.assert_array_equal(gradient, [[0, 0], [-0.25, 0.25]])
