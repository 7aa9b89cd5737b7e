import math
import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.losses.crossentropy import softmax_gradient_supremum


def gradient_norms(logits):
    """``||softmax(z) - e_0||`` of each row."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    gradient = weights / weights.sum(axis=-1, keepdims=True)
    gradient[:, 0] = -(gradient[:, 1:].sum(axis=-1))
    return np.linalg.norm(gradient, axis=-1)


def three_value_maximum(radius, classes, steps=700):
    """Dense grid of the two-sphere (z_y, b, c ...), the mean left free: a lower bound."""
    a, b = np.meshgrid(np.linspace(0, np.pi, steps), np.linspace(0, np.pi, steps))
    true = -radius * np.cos(a)
    other, common = radius * np.sin(a) * np.sin(b), radius * np.sin(a) * np.cos(b)
    common = common / math.sqrt(classes - 2)
    logits = np.stack([true.ravel(), other.ravel()] + [common.ravel()] * (classes - 2), axis=-1)
    return float(gradient_norms(logits).max())


@pytest.mark.parametrize(
    ("radius", "value"), [(0.5, 0.989), (1.0, 1.015), (2.0, 1.081), (4.0, 1.326), (8.0, 1.4127)]
)
def test_published_values_for_ten_classes(radius, value):
    digits = 4 if value == 1.4127 else 3
    assert round(softmax_gradient_supremum(radius, 10), digits) == value


@pytest.mark.parametrize("radius", [0.0, 0.3, 1.0, 5.0, math.inf])
def test_two_classes_closed_form(radius):
    exact = math.sqrt(2) / (1 + math.exp(-math.sqrt(2) * radius))
    assert exact <= softmax_gradient_supremum(radius, 2) <= exact * (1 + 1e-11)


def test_two_classes_at_radius_one():
    assert softmax_gradient_supremum(1.0, 2) == pytest.approx(1.13764, abs=1e-5)


@pytest.mark.parametrize("classes", [3, 10, 1000])
def test_limits(classes):
    assert softmax_gradient_supremum(math.inf, classes) == math.sqrt(2)
    assert softmax_gradient_supremum(1e12, classes) == math.sqrt(2)
    centre = math.sqrt((1 - 1 / classes) ** 2 + (classes - 1) / classes**2)
    assert centre <= softmax_gradient_supremum(0.0, classes) <= centre * (1 + 1e-6)


@pytest.mark.parametrize(
    ("radius", "classes"), [(0.1, 3), (1.0, 3), (2.0, 10), (4.0, 10), (6.0, 5)]
)
def test_tight_against_a_dense_grid(radius, classes):
    found = three_value_maximum(radius, classes)
    bound = softmax_gradient_supremum(radius, classes)
    assert found <= bound <= found * (1 + 1e-5)


def test_common_value_of_the_others_matters():
    """With the other logits at 0 the maximum over the sphere is smaller, and would be unsound."""
    angles = np.linspace(0, np.pi / 2, 2000)
    logits = np.zeros((2000, 10))
    logits[:, 0], logits[:, 1] = -4 * np.cos(angles), 4 * np.sin(angles)
    assert gradient_norms(logits).max() == pytest.approx(1.3124, abs=1e-4)
    assert softmax_gradient_supremum(4.0, 10) > 1.3258


@given(st.floats(0, 40), st.integers(2, 40), st.integers(0, 2**32 - 1))
@example(4.0, 10, 0)
def test_no_logits_of_the_ball_exceed_it(radius, classes, seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(500, classes)) * 10.0 ** rng.uniform(-2, 1, size=(500, 1))
    logits[:250, 0] -= rng.exponential(5, size=250)
    logits[:100, 1] += rng.exponential(5, size=100)
    logits *= radius * rng.random((500, 1)) ** 0.1 / np.linalg.norm(logits, axis=1, keepdims=True)
    assert gradient_norms(logits).max() <= softmax_gradient_supremum(radius, classes)


@given(st.floats(0, 20), st.floats(0, 5), st.integers(2, 50))
def test_grows_with_the_ball(radius, more, classes):
    smaller = softmax_gradient_supremum(radius, classes)
    assert smaller <= softmax_gradient_supremum(radius + more, classes) * (1 + 3e-7)


def test_fast():
    start = time.process_time()
    for classes in (3, 10, 101, 1000, 20000):
        softmax_gradient_supremum(3.21 + classes / 1e6, classes)
    assert time.process_time() - start < 5 * 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("radius", "classes"), [(1.0, 3), (2.0, 4), (4.0, 5), (4.0, 10), (7.0, 30)]
)
def test_brute_force_over_all_logits(radius, classes):
    """Projected random ascent in all K coordinates: neither above the bound nor far below.

    And what it finds has one other class high and the rest equal, as the proof says.
    """
    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(400, classes))
    logits *= radius / np.linalg.norm(logits, axis=1, keepdims=True)
    best = gradient_norms(logits)
    for step in np.geomspace(1.0, 1e-5, 6000):
        moved = logits + step * radius * rng.normal(size=logits.shape) / math.sqrt(classes)
        moved *= radius / np.linalg.norm(moved, axis=1, keepdims=True)
        values = gradient_norms(moved)
        better = values > best
        logits[better], best[better] = moved[better], values[better]
    bound = softmax_gradient_supremum(radius, classes)
    assert bound * (1 - 1e-3) <= best.max() <= bound
    others = np.sort(logits[np.argmax(best), 1:])
    assert np.ptp(others[:-1]) < 0.05 * radius
    assert others[-1] >= others[-2]
