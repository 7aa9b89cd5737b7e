"""Radii against exact rational arithmetic, exact geometry and an attack."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.certificates import pairwise_radii, radii
from lipdp.errors import InvalidData, InvalidValue

FINITE = st.floats(-1e6, 1e6)
LOGITS = hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(2, 5)), elements=FINITE)
CONSTANTS = st.floats(1e-6, 1e6)
ERRORS = st.one_of(st.just(0.0), st.floats(1e-12, 1.0))


def margin(row: np.ndarray) -> Fraction:
    ordered = sorted(Fraction(float(v)) for v in row)
    return ordered[-1] - ordered[-2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"lipschitz": 1.0}, 0.35355),
        ({"lipschitz": 1.8}, 0.19642),
        ({"lipschitz": 1.0, "kind": "per-logit"}, 0.25),
        ({"lipschitz": 1.0, "labels": [0]}, 0.35355),
        ({"lipschitz": 1.0, "labels": [1]}, 0.0),
        ({"lipschitz": 1.0, "labels": [[1, 0]]}, 0.35355),
        ({"lipschitz": math.inf}, 0.0),
        ({"lipschitz": 0.0}, math.inf),
        ({"lipschitz": 0.0, "labels": [1]}, 0.0),
        ({"lipschitz": 1.0, "error": 0.05}, 0.25355),
        ({"lipschitz": 1.0, "error": math.inf}, 0.0),
        ({"lipschitz": 0.0, "error": 0.2}, 0.0),
    ],
)
def test_two_logits(arguments, expected):
    assert radii([[0.9, 0.4]], **arguments)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["joint", "per-logit", "binary"])
def test_one_logit(kind):
    logits = [[0.5], [-0.25], [0.0], [0.5]]
    found = radii(logits, [1, 0, 0, 0], lipschitz=2.0, kind=kind)
    np.testing.assert_allclose(found, [0.25, 0.125, 0.0, 0.0])
    np.testing.assert_allclose(radii(logits, lipschitz=2.0, kind=kind), [0.25, 0.125, 0, 0.25])


def test_vector_of_binary_logits():
    np.testing.assert_allclose(radii([0.5, -1.0], lipschitz=1.0, kind="binary"), [0.5, 1.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_ties_and_non_finite_rows_have_no_radius(bad):
    logits = np.array([[1.0, 1.0, 0.0], [3.0, bad, 0.0]])
    for labels in (None, [0, 0], [1, 1]):
        assert radii(logits, labels, lipschitz=0.0).tolist() == [0.0, 0.0]
        kernel = np.zeros((2, 3))
        assert pairwise_radii(logits, kernel, lipschitz_rest=1.0, labels=labels).tolist() == [0, 0]


@given(LOGITS, CONSTANTS, ERRORS)
@example(np.array([[0.0, 5e-324]]), 1.0, 0.0)
@example(np.array([[0.1, 0.3]]), 3.0, 0.1)
def test_joint_radius_is_never_above_the_exact_one(logits, lipschitz, error):
    for row, radius in zip(logits, radii(logits, lipschitz=lipschitz, error=error), strict=True):
        moved = Fraction(lipschitz) * Fraction(radius) + 2 * Fraction(error)
        assert radius == 0.0 or 2 * moved**2 <= margin(row) ** 2


@given(LOGITS, CONSTANTS)
def test_per_logit_radius_is_never_above_the_exact_one_and_close(logits, lipschitz):
    found = radii(logits, lipschitz=lipschitz, kind="per-logit")
    for row, radius in zip(logits, found, strict=True):
        exact = margin(row) / (2 * Fraction(lipschitz))
        assert Fraction(radius) <= exact
        assert float(exact) <= radius * (1 + 1e-14) + 1e-300


def test_no_rounding_is_lost_in_many_rows():
    rng = np.random.default_rng(0)
    logits, lipschitz, error = rng.normal(size=(5000, 2)), 1.2345678, 1e-3
    for noise in (0.0, error):
        found = radii(logits, lipschitz=lipschitz, kind="per-logit", error=noise)
        for row, radius in zip(logits, found, strict=True):
            rest = margin(row) - 2 * Fraction(radius) * Fraction(lipschitz)
            assert radius == 0.0 or (rest >= 0 and rest**2 >= 8 * Fraction(noise) ** 2)


def test_norms_of_many_columns_are_upper_bounds():
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(30, 1000))
    kernel[:, 0] = 0.0
    for i in range(1, 1000):
        radius = pairwise_radii([[1.0, 0.0]], kernel[:, [0, i]], lipschitz_rest=1.0)[0]
        length2 = sum(Fraction(w) ** 2 for w in kernel[:, i])
        assert Fraction(radius) ** 2 * length2 <= 1


@given(LOGITS, CONSTANTS, ERRORS, st.integers(0, 2**32 - 1))
def test_pairwise_radius_is_never_above_the_exact_one(logits, lipschitz, error, seed):
    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=(3, logits.shape[1])) * 10.0 ** rng.integers(-200, 200)
    found = pairwise_radii(logits, kernel, lipschitz_rest=lipschitz, error=error)
    for row, radius in zip(logits, found, strict=True):
        k = int(row.argmax())
        for i in set(range(len(row))) - {k}:
            gap = Fraction(row[k]) - Fraction(row[i])
            length2 = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in kernel[:, [k, i]])
            # gap >= l r length + 2 sqrt(2) e, compared without a square root of the sum.
            rest = gap - Fraction(radius) * Fraction(lipschitz) * sqrt_up(length2)
            assert radius == 0.0 or (rest >= 0 and rest**2 >= 8 * Fraction(error) ** 2)


def sqrt_up(value: Fraction) -> Fraction:
    """A rational above the square root by less than 1e-25 of it."""
    if value == 0:
        return Fraction(0)
    scale = 10**50
    while value * scale < 10**60:
        scale *= 10**20
    return Fraction(math.isqrt(int(value * scale**2)) + 1, scale)


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1.0, 1e200, 1.7e308])
def test_column_distances_neither_vanish_nor_overflow(scale):
    kernel = np.array([[scale, -scale], [0.0, 0.0]])
    found = pairwise_radii([[1.0, 0.0]], kernel, lipschitz_rest=1.0)[0]
    exact = 1 / (2 * Fraction(scale))
    assert Fraction(found) <= exact
    assert scale > 1e307 or scale < 1e-300 or found >= float(exact) * (1 - 1e-13)


def test_equal_columns_never_separate_and_never_mix():
    kernel = np.ones((3, 2))
    assert pairwise_radii([[1.0, 0.5]], kernel, lipschitz_rest=2.0) == [math.inf]
    assert pairwise_radii([[1.0, 0.5]], kernel, lipschitz_rest=2.0, error=1.0) == [0.0]
    assert pairwise_radii([[1.0, 0.5]], kernel, lipschitz_rest=math.inf) == [0.0]
    assert pairwise_radii([[1.0, 0.5]], np.eye(2), lipschitz_rest=0.0) == [math.inf]


def test_pairwise_is_at_least_joint_for_a_head_of_norm_one():
    rng = np.random.default_rng(0)
    kernel = np.linalg.qr(rng.normal(size=(8, 8)))[0][:, :4]
    logits = rng.normal(size=(50, 8)) @ kernel
    through = pairwise_radii(logits, kernel, lipschitz_rest=1.0)
    assert (through >= radii(logits, lipschitz=1.0) * (1 - 1e-12)).all()
    short = pairwise_radii(logits, kernel * [1, 1, 0.1, 0.1], lipschitz_rest=1.0)
    assert (short[np.isin(logits.argmax(axis=1), [2, 3])].sum()) > 0
    assert (short >= through).all() and (short > through).any()


def test_identity_map_has_the_exact_distance():
    x = np.array([[1.0, 0.0]])
    radius = radii(x, lipschitz=1.0)[0]
    assert radius == pytest.approx(0.70711, abs=1e-5)
    direction = np.array([[-1.0, 1.0]]) / math.sqrt(2)
    assert (x + 0.99999 * radius * direction).argmax() == 0
    assert (x + 1.00001 * radius * direction).argmax() == 1


def test_scaling_the_inputs_scales_the_radius():
    x = np.random.default_rng(1).normal(size=(20, 3))
    np.testing.assert_allclose(radii(x / 255, lipschitz=1 / 255), radii(x, lipschitz=1.0))


class Net:
    """``|x Q| W`` with Q orthogonal and ``||W||_2 = 1``: 1-Lipschitz, with its gradient."""

    def __init__(self, seed: int, features: int = 12, classes: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.q = np.linalg.qr(rng.normal(size=(features, features)))[0]
        w = rng.normal(size=(features, classes))
        self.w = w / np.linalg.norm(w, 2)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.abs(x @ self.q) @ self.w

    def attack(self, x: np.ndarray, labels: np.ndarray, radius: np.ndarray) -> np.ndarray:
        start, rows = x, np.arange(len(x))
        for _ in range(100):
            z = self(x)
            z[rows, labels] = -np.inf
            rival = z.argmax(axis=1)
            pull = np.sign(x @ self.q) * (self.w[:, rival] - self.w[:, labels]).T
            x = x + 0.2 * radius[:, None] * unit(pull @ self.q.T)
            step = x - start
            far = np.linalg.norm(step, axis=1, keepdims=True)
            x = start + step * np.minimum(1.0, (1 - 1e-12) * radius[:, None] / far)
        return x


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-30)


def test_attack_finds_nothing_inside_and_something_outside():
    net, x = Net(0), np.random.default_rng(1).normal(size=(1000, 12))
    labels = net(x).argmax(axis=1)
    joint = radii(net(x), lipschitz=1.0)
    through = pairwise_radii(net(x), net.w, lipschitz_rest=1.0)
    for radius in (joint, through):
        assert (net(net.attack(x, labels, radius)).argmax(axis=1) == labels).all()
    broken = net(net.attack(x, labels, 3 * through)).argmax(axis=1) != labels
    assert broken.mean() > 0.1


@pytest.mark.parametrize("value", [-1.0, math.nan, "much", None])
def test_bad_numbers_are_refused(value):
    with pytest.raises(InvalidValue, match="lipschitz"):
        radii([[1.0, 0.0]], lipschitz=value)
    with pytest.raises(InvalidValue, match="error"):
        radii([[1.0, 0.0]], lipschitz=1.0, error=value)
    with pytest.raises(InvalidValue, match="lipschitz_rest"):
        pairwise_radii([[1.0, 0.0]], np.eye(2), lipschitz_rest=value)


def test_bad_kind_and_shapes_are_refused():
    with pytest.raises(InvalidValue, match="kind"):
        radii([[1.0, 0.0]], lipschitz=1.0, kind="max")
    for logits in (np.zeros(3), np.zeros((2, 0)), np.zeros((2, 2, 2))):
        with pytest.raises(InvalidData, match="shape"):
            radii(logits, lipschitz=1.0)
    with pytest.raises(InvalidData, match="shape"):
        radii(np.zeros((3, 2)), lipschitz=1.0, kind="binary")
    for kernel in (np.eye(3), np.zeros(2), np.full((2, 2), np.nan)):
        with pytest.raises(InvalidValue, match="kernel"):
            pairwise_radii([[1.0, 0.0]], kernel, lipschitz_rest=1.0)


@pytest.mark.parametrize(
    "labels", [[2], [-1], [0.5], [math.nan], ["a"], [[1, 1]], [[0.3, 0.7]], [0, 1], [[[0]]]]
)
def test_bad_labels_are_refused(labels):
    with pytest.raises(InvalidData):
        radii([[1.0, 0.0]], labels, lipschitz=1.0)


def test_no_rows_give_no_radii():
    assert radii(np.zeros((0, 3)), lipschitz=1.0).shape == (0,)
    assert pairwise_radii(np.zeros((0, 3)), np.eye(3), lipschitz_rest=1.0).shape == (0,)
