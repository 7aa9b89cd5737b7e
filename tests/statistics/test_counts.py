"""Private histograms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.errors import InvalidData, InvalidValue
from lipdp.statistics import mechanism
from lipdp.statistics.mechanism import Released, private_counts

codes_of = st.lists(st.tuples(*[st.integers(-2, 5)] * 3), min_size=1, max_size=6)


def noiseless(monkeypatch):
    """Keeps what would have been released."""
    kept = []

    def fake(queries, noise_multiplier, **_):
        kept.extend(queries)
        return [Released(q.values, 1.0) for q in queries]

    monkeypatch.setattr(mechanism, "release", fake)
    return kept


@given(rows=codes_of, most=st.integers(1, 3))
def test_no_neighbour_changes_a_count_by_more_than_its_sensitivity(rows, most):
    with pytest.MonkeyPatch.context() as patch:
        kept = noiseless(patch)
        codes = np.array(rows * 4)
        for part in (codes, codes[:-most]):
            private_counts(part, (4, 2, 5), noise_multiplier=1.0, max_rows_per_unit=most)
    more, less = kept
    assert np.linalg.norm(more.values - less.values) <= more.sensitivity
    # A unit whose rows are all alike, and known, attains it.
    if all(0 <= c < n for row in rows for c, n in zip(row, (4, 2, 5), strict=True)) and most == 1:
        assert np.linalg.norm(more.values - less.values) == pytest.approx(more.sensitivity)


def test_counts_without_noise_are_the_histograms():
    codes = np.array([[0, 1], [0, 0], [2, -1], [7, 1]])
    found = private_counts(codes, (3, 2), noise_multiplier=0.0).counts
    assert [c.tolist() for c in found] == [[2, 0, 1], [1, 2]]
    (single,) = private_counts(np.array([1, 1, 0], dtype="uint64"), 3, noise_multiplier=0.0).counts
    assert single.tolist() == [1, 2, 0]


@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_has_its_size_and_negatives_become_zero(secure):
    """30,000 categories, half of them empty: 3 % of the standard deviation is 5 standard errors."""
    codes = np.repeat(np.arange(15_000), 100)
    (found,) = private_counts(
        codes, 30_000, noise_multiplier=4.0, max_rows_per_unit=3, secure_noise=secure
    ).counts
    known, empty = found[:15_000] - 100.0, found[15_000:]
    assert abs(known.std() / 12.0 - 1.0) < 5.0 / math.sqrt(30_000) + 2e-3
    assert (empty >= 0.0).all() and abs((empty == 0.0).mean() - 0.5) < 5 * 0.5 / math.sqrt(15_000)


@pytest.mark.parametrize(
    ("codes", "sizes", "changes", "error"),
    [
        (np.array([0.5]), 2, {}, InvalidData),
        (np.array(["a"]), 2, {}, InvalidData),
        (np.zeros((1, 1, 1), dtype=int), 2, {}, InvalidData),
        (np.zeros((3, 2), dtype=int), 2, {}, InvalidData),
        (np.zeros((3, 2), dtype=int), (2, 2, 2), {}, InvalidData),
        (np.zeros(3, dtype=int), 0, {}, InvalidValue),
        (np.zeros(3, dtype=int), 2.5, {}, InvalidValue),
        (np.zeros(3, dtype=int), 2, {"noise_multiplier": -1.0}, InvalidValue),
        (np.zeros(3, dtype=int), 2, {"max_rows_per_unit": 0}, InvalidValue),
    ],
)
def test_bad_arguments_are_refused(codes, sizes, changes, error):
    with pytest.raises(error):
        private_counts(codes, sizes, **{"noise_multiplier": 1.0, **changes})
