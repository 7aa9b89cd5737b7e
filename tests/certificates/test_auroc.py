"""AUROC against the definition: all pairs, in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.certificates import auroc, certified_auroc, macro_auroc
from lipdp.errors import InvalidData, InvalidValue

# Few distinct values, so that ties and exact gaps happen.
SCORES = st.one_of(st.integers(-4, 4).map(lambda i: i / 8), st.floats(-2, 2))
SAMPLES = st.lists(st.tuples(SCORES, st.booleans()), min_size=2, max_size=20).filter(
    lambda rows: len({label for _, label in rows}) == 2
)


def pairs(rows):
    positive = [Fraction(s) for s, label in rows if label]
    negative = [Fraction(s) for s, label in rows if not label]
    return [(p, n) for p in positive for n in negative]


@given(SAMPLES)
def test_auroc_is_the_fraction_of_pairs_with_ties_half(rows):
    wins = [1.0 if p > n else 0.5 if p == n else 0.0 for p, n in pairs(rows)]
    assert auroc(*zip(*rows, strict=True)) == pytest.approx(np.mean(wins), abs=1e-12)


@given(SAMPLES, st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([0.0, 0.0625, 0.1, 1.0]))
@example([(0.5, True), (0.0, False)], 1.0, 0.25)
def test_certified_auroc_counts_pairs_with_a_gap(rows, lipschitz, radius):
    scores, labels = zip(*rows, strict=True)
    found = certified_auroc(scores, labels, lipschitz=lipschitz, radius=radius)
    gap = 2 * Fraction(lipschitz) * Fraction(radius)
    sure = np.mean([p - n > gap for p, n in pairs(rows)])
    # Rounding may only drop a pair: one within 1e-12 of the gap.
    clear = np.mean([p - n > gap + Fraction(1, 10**12) for p, n in pairs(rows)])
    assert clear - 1e-12 <= found <= sure + 1e-12
    assert found <= auroc(scores, labels) + 1e-12
    with_error = certified_auroc(scores, labels, lipschitz=lipschitz, radius=radius, error=0.01)
    assert with_error <= found


def test_equality_of_gap_and_movement_is_not_certified():
    assert certified_auroc([1.0, 0.0], [1, 0], lipschitz=1.0, radius=0.5) == 0.0
    assert certified_auroc([1.0, 0.0], [1, 0], lipschitz=1.0, radius=0.499) == 1.0
    assert certified_auroc([1.0, 0.0], [1, 0], lipschitz=0.0, radius=0.5, error=0.25) == 0.0
    assert certified_auroc([1.0, 0.0], [1, 0], lipschitz=0.0, radius=0.5, error=0.249) == 1.0


def test_infinite_constant_certifies_only_radius_zero():
    arguments = {"scores": [1.0, 0.0], "labels": [1, 0], "lipschitz": math.inf}
    assert certified_auroc(**arguments, radius=0.0) == 1.0
    assert certified_auroc(**arguments, radius=1e-9) == 0.0


def test_no_perturbation_of_a_linear_score_breaks_a_certified_pair():
    rng = np.random.default_rng(0)
    w = np.array([0.6, 0.8])
    x, y = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    radius = 0.2
    worst = (x + radius * np.where(y[:, None] == 1, -w, w)) @ w
    # The attack on a linear score is exact, so the certified value is attained.
    assert certified_auroc(x @ w, y, lipschitz=1.0, radius=radius) == pytest.approx(
        auroc(worst, y), abs=1e-12
    )


def test_macro_auroc_averages_the_classes_present():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    expected = np.mean([auroc(logits[:, k], labels == k) for k in range(3)])
    assert macro_auroc(logits, labels) == pytest.approx(expected)
    assert macro_auroc(logits, np.eye(4)[labels]) == pytest.approx(expected)
    binary = labels > 0
    assert macro_auroc(logits[:, :1], binary) == auroc(logits[:, 0], binary)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([1.0, 2.0], [1, 1]),
        ([1.0, math.nan], [1, 0]),
        ([1.0, math.inf], [1, 0]),
        ([1.0, 2.0], [1, 2]),
        ([1.0, 2.0], [1, -1]),
        ([1.0, 2.0], [1]),
        ([], []),
        ([[1.0, 2.0]], [1]),
    ],
)
def test_bad_data_is_refused(scores, labels):
    with pytest.raises(InvalidData):
        auroc(scores, labels)
    with pytest.raises(InvalidData):
        certified_auroc(scores, labels, lipschitz=1.0, radius=0.0)


def test_one_class_has_no_macro_auroc():
    with pytest.raises(InvalidData):
        macro_auroc(np.zeros((3, 2)), [1, 1, 1])


@pytest.mark.parametrize("name", ["lipschitz", "radius", "error"])
def test_bad_numbers_are_refused(name):
    arguments = {"lipschitz": 1.0, "radius": 0.0, "error": 0.0, name: -1.0}
    with pytest.raises(InvalidValue, match=name):
        certified_auroc([1.0, 0.0], [1, 0], **arguments)
