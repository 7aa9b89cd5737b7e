import math

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.losses import TemperedCrossentropy

LOGITS = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [3.0, 3.0, -1.0]])
IDS = np.array([1, 0, 0])


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("tau", [0.5, 8.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_formula(gradient_of, tau, smoothing):
    loss = TemperedCrossentropy(tau, smoothing, dtype="float64")
    value, gradient = gradient_of(loss, IDS, LOGITS)
    p = softmax(tau * LOGITS)
    labels = (1 - smoothing) * np.eye(3)[IDS] + smoothing / 3
    assert value == pytest.approx(-(labels * np.log(p)).sum() / tau, rel=1e-12)
    np.testing.assert_allclose(gradient, p - labels, atol=1e-14)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_agrees_with_keras_on_soft_labels(smoothing):
    labels = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    options = {"reduction": "none", "dtype": "float64", "label_smoothing": smoothing}
    ours = TemperedCrossentropy(1.0, **options)(labels, LOGITS)
    theirs = keras.losses.CategoricalCrossentropy(from_logits=True, **options)(labels, LOGITS)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def smoothed_norms(logits, smoothing, labels):
    """Gradient norms of rows of logits, in float64."""
    classes = logits.shape[1]
    labels = (1 - smoothing) * labels + smoothing / classes
    return np.linalg.norm(softmax(logits) - labels, axis=1)


@given(st.floats(0, 20), st.integers(2, 20), st.floats(0, 0.99), st.integers(0, 2**32 - 1))
def test_no_logits_of_the_ball_exceed_the_smoothed_constant(radius, classes, smoothing, seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(400, classes))
    logits[:200, 0] -= rng.exponential(5, size=200)
    logits[:100, 1] += rng.exponential(5, size=100)
    logits *= radius * rng.random((400, 1)) ** 0.1 / np.linalg.norm(logits, axis=1, keepdims=True)
    labels = np.eye(classes)[np.zeros(400, int)]
    labels[300:] = rng.dirichlet(np.full(classes, 0.3), 100)
    bound = TemperedCrossentropy(1.0, smoothing).lipschitz(radius, classes)
    assert smoothed_norms(logits, smoothing, labels).max() <= bound * (1 + 1e-15)


@pytest.mark.parametrize(("radius", "classes"), [(0.3, 2), (0.3, 10), (30.0, 2)])
def test_smoothed_constant_is_nearly_attained(radius, classes):
    logits = np.zeros((1, classes))
    logits[0, :2] = -radius / math.sqrt(2), radius / math.sqrt(2)
    bound = TemperedCrossentropy(1.0, 0.4).lipschitz(radius, classes)
    assert smoothed_norms(logits, 0.4, np.eye(classes)[:1])[0] > 0.9 * bound


@given(st.floats(0, 30), st.integers(2, 30), st.floats(0, 0.5), st.floats(0.01, 0.49))
def test_smoothing_never_raises_the_constant(radius, classes, smoothing, more):
    less = TemperedCrossentropy(1.0, smoothing + more).lipschitz(radius, classes)
    assert less <= TemperedCrossentropy(1.0, smoothing).lipschitz(radius, classes) * (1 + 3e-15)
