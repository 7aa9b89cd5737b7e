"""Intervals against scipy's own."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from lipdp.reports.sections import estimate, row_interval

SHARES = st.floats(0, 1, allow_subnormal=False)


@given(st.lists(SHARES, min_size=2, max_size=12))
@example([0.5, 0.5])
@example([0.0, 1.0])
def test_interval_over_seeds_is_that_of_student(values):
    found = estimate(values)
    mean, error = stats.tmean(values), stats.sem(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error or 1.0)
    assert found.mean == pytest.approx(mean, abs=1e-12)
    assert found.half_width == pytest.approx((high - low) / 2 if error else 0.0, abs=1e-9)
    assert found.count == len(values)


def test_one_run_has_no_interval():
    found = estimate([0.8])
    assert (found.mean, found.half_width, found.count) == (0.8, None, 1)


@given(rows=st.integers(1, 100_000), share=SHARES)
@example(rows=1, share=0.0)
@example(rows=6513, share=1.0)
def test_interval_by_test_rows_is_that_of_wilson(rows, share):
    right = round(share * rows)
    low, high = row_interval(right / rows, rows)
    known = stats.binomtest(right, rows).proportion_ci(0.95, method="wilson")
    assert (low, high) == pytest.approx((known.low, known.high), abs=1e-9)


def test_the_interval_of_a_share_stays_between_0_and_1():
    wide = estimate([0.05, 0.63])
    assert wide.half_width > 3
    assert wide.share_interval == (0.0, 1.0)
    assert wide.is_cut
    narrow = estimate([0.8, 0.81, 0.82])
    assert narrow.share_interval == pytest.approx(
        (narrow.mean - narrow.half_width, narrow.mean + narrow.half_width)
    )
    assert not narrow.is_cut
    assert estimate([0.8]).share_interval is None
    assert not estimate([1.0]).is_cut
