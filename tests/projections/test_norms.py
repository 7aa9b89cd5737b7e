import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.projections import frobenius_norm_bound, spectral_norm_bound


def exact_square(w, v):
    """``||W v||^2 / ||v||^2`` in exact rational arithmetic, a lower bound of ``||W||_2^2``."""
    from fractions import Fraction

    rows = [[Fraction(float(e)) for e in row] for row in w]
    v = [Fraction(float(e)) for e in v]
    wv = [sum(a * b for a, b in zip(row, v, strict=True)) for row in rows]
    return sum(e * e for e in wv) / sum(e * e for e in v)


matrices = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e30, 1e30, allow_subnormal=True),
)


@given(matrices)
@example(np.full((1, 3), 0.1))
@example(np.full((3, 1), 1e-300))
@example(np.array([[1.0, 1e-200], [1e-200, 1.0]]))
@example(np.full((4, 4), 5e-324))
def test_spectral_bound_is_above_an_exact_rayleigh_quotient(w):
    from fractions import Fraction

    right = np.linalg.svd(w / (np.max(np.abs(w)) or 1.0))[2][0]
    assert Fraction(spectral_norm_bound(w)) ** 2 >= exact_square(w, right)


@given(matrices)
@example(np.full((3, 3), 1e-300))
@example(np.full((3, 3), 5e-324))
def test_frobenius_bound_is_above_the_exact_norm(w):
    from fractions import Fraction

    exact = sum(Fraction(float(e)) ** 2 for e in w.ravel())
    assert Fraction(frobenius_norm_bound(w)) ** 2 >= exact


@pytest.mark.parametrize("bound", [spectral_norm_bound, frobenius_norm_bound])
@pytest.mark.parametrize("shape", [(4096, 1), (1, 4096)])
def test_small_entries_that_vanish_in_a_sum_count(bound, shape):
    """Of 1 and many 2^-54 a sum loses more than an ulp: what is computed from it is no bound."""
    from fractions import Fraction

    w = np.full(4096, 2.0**-27)
    w[0] = 1.0
    assert Fraction(bound(w.reshape(shape))) ** 2 >= 1 + Fraction(4095, 2**54)


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 7), (40, 40), (100, 30), (30, 100)])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_bounds_are_tight(shape, scale):
    w = np.random.default_rng(0).normal(size=shape) * scale
    assert spectral_norm_bound(w) == pytest.approx(np.linalg.norm(w, 2), rel=1e-10, abs=0)
    assert frobenius_norm_bound(w) == pytest.approx(np.linalg.norm(w), rel=1e-10, abs=0)


def test_orthogonal_matrix_is_proved_to_1e_10():
    q = np.linalg.qr(np.random.default_rng(1).normal(size=(200, 200)))[0]
    assert 1.0 < spectral_norm_bound(q) < 1.0 + 1e-10


def test_the_greatest_singular_value_is_found_whatever_the_start():
    assert spectral_norm_bound(np.diag([3.0, 2.999, 1.0])) >= 3.0
    assert spectral_norm_bound(np.diag([2.999, 3.0, 1.0])) == pytest.approx(3.0, rel=1e-12)


@pytest.mark.parametrize("bound", [spectral_norm_bound, frobenius_norm_bound])
def test_degenerate_matrices(bound):
    assert bound(np.zeros((3, 2))) == 0.0
    assert bound(np.zeros((0, 2))) == 0.0
    assert bound(np.array([[1.0, np.nan]])) == math.inf
    assert bound(np.array([[1.0, -np.inf]])) == math.inf
    assert bound(np.full((2, 2), 1.7e308)) == math.inf
    assert bound(np.float32(2.0)) >= 2.0


def test_higher_rank_is_read_as_rows_by_last_axis():
    w = np.random.default_rng(2).normal(size=(3, 3, 2, 5))
    assert spectral_norm_bound(w) == spectral_norm_bound(w.reshape(18, 5))
