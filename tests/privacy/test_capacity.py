import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.privacy import capacity, overflow_probability


def _exact_tail(rows, rate, at_least):
    """P(Binomial(rows, rate) >= at_least) in rationals."""
    p = Fraction(rate)
    terms = (math.comb(rows, k) * p**k * (1 - p) ** (rows - k) for k in range(at_least, rows + 1))
    return sum(terms, Fraction(0))


@given(
    rows=st.integers(1, 120),
    share=st.integers(1, 120),
    steps=st.integers(1, 10**6),
    log_delta=st.floats(-9, -2),
)
@example(rows=1, share=1, steps=1, log_delta=-5.0)
@example(rows=100, share=120, steps=1, log_delta=-5.0)
def test_the_overflow_of_all_steps_is_a_thousandth_of_delta(rows, share, steps, log_delta):
    rate, delta = share / 120, 10**log_delta
    found = capacity(rows, rate, steps, delta)
    exact = _exact_tail(rows, rate, found.rows)
    assert exact <= Fraction(found.overflow_probability_per_step)
    assert steps * found.overflow_probability_per_step <= 1e-3 * delta * (1 + 1e-12)
    assert found.rows <= rows + 1
    if found.rows > 9:  # it was rounded up by at most 7
        assert steps * _exact_tail(rows, rate, found.rows - 8) > 0.999e-3 * delta


def test_the_row_itself_must_fit():
    """With N rows in the batch and capacity N, a neighbour with one row more would not fit."""
    assert capacity(100, 1.0, 10, 1e-5) == capacity(100, 1.0, 10**6, 1e-9)
    assert capacity(100, 1.0, 10, 1e-5).rows == 101
    assert capacity(100, 1.0, 10, 1e-5).overflow_probability_per_step == 0.0
    assert overflow_probability(100, 1.0, 100) == 1.0


def test_a_usual_size():
    found = capacity(60000, 256 / 60000, 14062, 1e-5)
    assert 360 <= found.rows <= 384
    assert found.rows % 8 == 0
    assert capacity(60000, 256 / 60000, 0, 1e-5).rows <= found.rows


def test_the_tail_counts_its_first_value():
    assert overflow_probability(2, 0.5, 2) == pytest.approx(0.25, rel=1e-5)
    assert overflow_probability(2, 0.5, 2) >= 0.25
    assert overflow_probability(2, 0.5, 3) == 0.0
    assert overflow_probability(2, 0.5, 0) == 1.0


@pytest.mark.parametrize(
    "arguments", [(0, 0.1, 1, 1e-5), (10, 0.0, 1, 1e-5), (10, 0.1, -1, 1e-5), (10, 0.1, 1, 1.0)]
)
def test_bad_input_is_refused(arguments):
    with pytest.raises(InvalidValue):
        capacity(*arguments)
