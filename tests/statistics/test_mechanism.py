"""Private means, scales and whitenings: what a neighbour changes, what the noise is, what is left.

The oracle of the statistics is an own implementation row by row in exact fractions or float64; the
searches maximise the change over the public sensitivity, which must never exceed 1.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy import calibrate_noise_multiplier, effective_multiplier, epsilon
from lipdp.statistics.mechanism import (
    clip_rows,
    private_mean_and_scale,
    private_mean_and_whitening,
    release,
    scale_queries,
    sensitivity_of_sum,
    sum_rows,
    unit_rows,
    whitening_queries,
)

QUERIES = [scale_queries, whitening_queries]
STATISTICS = [private_mean_and_scale, private_mean_and_whitening]

rows_of = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.just(3)),
    elements=st.floats(-4, 4) | st.sampled_from([math.nan, math.inf, -1e308, 1e-320, 5.0]),
)


def change(queries, x, y, radius, groups=None):
    """Change of each query over its sensitivity, the smaller of the two; groups are those of x."""
    ids = (None, None) if groups is None else (groups, groups[: len(y)])
    both = [queries(unit_rows(rows, i), radius) for rows, i in zip((x, y), ids, strict=True)]
    pairs = [sorted(pair, key=lambda q: q.sensitivity) for pair in zip(*both, strict=True)]
    return [np.linalg.norm(a.values - b.values) / b.sensitivity for a, b in pairs]


@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("radius", [0.5, 3.0, 1e-20, 1e20])
@given(rows=rows_of, scale=st.sampled_from([1.0, 1e30]))
@example(rows=np.array([[1.0, 0, 0], [5.0, 0, 0]]), scale=1.0)
@example(rows=np.array([[1.0, 0, 0], [math.nan, 0, 0]]), scale=1.0)
def test_no_neighbour_changes_a_query_by_more_than_its_sensitivity(queries, radius, rows, scale):
    with np.errstate(over="ignore"):
        rows = rows * scale
    one_less = rows[:-1] if len(rows) > 1 else np.zeros((1, 3))
    assert max(change(queries, rows, one_less, radius)) <= 1.0
    blank = rows.copy()
    blank[-1] = 0.0
    assert max(change(queries, rows, blank, radius)) <= 1.0


@pytest.mark.parametrize("queries", QUERIES)
def test_the_worst_row_is_found_by_ascent(queries):
    """Ascent from random rows reaches the sensitivity, so a smaller one would be wrong."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(3, 3))
    best, row = 0.0, rng.normal(size=(1, 3))
    for step in np.geomspace(1.0, 1e-3, 400):
        tried = row + step * rng.normal(size=(1, 3))
        found = max(change(queries, np.vstack([base, tried]), base, 2.0))
        assert found <= 1.0
        if found >= best:
            best, row = found, tried
    assert best > 0.9999
    # The squares of a dense row move less: the least coordinates must not be what is bounded.
    for signs in itertools.product([-2.0, 0.0, 2.0], repeat=3):
        both = change(queries, np.vstack([base, [signs]]), base, 2.0)
        assert max(both) <= 1.0
        if queries is whitening_queries and any(signs):
            # The weighted triangle has the Frobenius norm of x x^T exactly.
            assert both[1] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("queries", QUERIES)
@given(rows=rows_of, own=rows_of, copies=st.integers(1, 200))
@example(rows=np.zeros((1, 3)), own=np.array([[9.0, 0, 0], [9.0, 0, 0]]), copies=200)
def test_a_user_with_any_number_of_rows_counts_as_one_row(queries, rows, own, copies):
    own = np.tile(own, (copies, 1))
    users = np.array(["others"] * len(rows) + ["new"] * len(own), dtype=object)
    found = change(queries, np.vstack([rows, own]), rows, 2.0, users)
    assert max(found) <= 1.0
    if (own[:, 0] == 9.0).all():
        assert found == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("find", STATISTICS)
def test_users_weigh_the_same_whatever_their_rows(find):
    """One user of 99 equal rows and two of one row: the mean is over users."""
    x = np.vstack([np.tile([1.0, 0.0], (99, 1)), [[0.0, 1.0], [0.0, 1.0]]])
    users = [7] * 99 + [3, "x"]
    found = find(x, radius=1.0, noise_multiplier=0.0, groups=np.array(users, dtype=str))
    np.testing.assert_allclose(found.mean, [1 / 3, 2 / 3], rtol=1e-12)
    if find is private_mean_and_scale:
        np.testing.assert_allclose(found.scale, [math.sqrt(2) / 3] * 2, rtol=1e-9)
    one_each = find(x[98:], radius=1.0, noise_multiplier=0.0)
    np.testing.assert_allclose(found.typical_norm, one_each.typical_norm, rtol=1e-9)


def test_rounding_of_long_sums_is_inside_the_sensitivity():
    """Float64 sums of 20,000 rows, against sums in exact arithmetic of the same clipped rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20_000, 2)) * 10.0 ** rng.integers(-8, 3, (20_000, 1))
    rows = clip_rows(x, 1.0)
    assert np.linalg.norm(rows, axis=1).max() <= 1.0 + 1e-15
    query = scale_queries(unit_rows(x), 1.0)[0]
    exact = np.array([math.fsum(column) for column in rows.T])
    assert 2.0 * np.linalg.norm(query.values - exact) <= query.sensitivity - 1.0
    assert query.sensitivity < 1.0 + 1e-6


def test_blocks_that_cancel_keep_their_digits():
    """Sums of blocks of 1e16, 1 and -1e16: without the kept errors the result would be 0."""
    x = np.zeros((3 * 4096, 1))
    x[0], x[4096], x[8192] = 1e16, 1.0, -1e16
    assert sum_rows(unit_rows(x), 1e20, lambda rows, weighted: weighted.sum(axis=0)) == 1.0
    assert sensitivity_of_sum(10**6, 100, 1.0) < 1.0 + 1e-5


@given(rows=rows_of, radius=st.sampled_from([1e-25, 0.7, 1e25]))
def test_clipped_rows_lie_in_the_ball_and_keep_their_direction(rows, radius):
    clipped = clip_rows(rows, radius)
    for before, after in zip(rows, clipped, strict=True):
        norm = math.hypot(*after)
        assert norm <= radius * (1.0 + 1e-14)
        if not np.isfinite(before).all():
            assert not after.any()
        elif math.hypot(*before) <= radius * (1 - 1e-14):
            assert (after == before).all()
        elif math.hypot(*before) > radius:
            assert norm >= radius * (1.0 - 1e-14)
            peak = np.abs(before).max()
            cosine = after / radius @ (before / peak) / math.hypot(*(before / peak))
            assert cosine == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("grouped", [False, True])
def test_many_blocks_sum_like_one(grouped):
    rng = np.random.default_rng(2)
    x, groups = rng.normal(size=(9001, 3)), rng.integers(0, 50, 9001) ** 2 // 100
    sums, moments = whitening_queries(unit_rows(x, groups if grouped else None), 2.0)
    rows, weights = clip_rows(x, 2.0), np.ones(9001)
    if grouped:
        weights = 1.0 / np.bincount(groups)[groups]
    np.testing.assert_allclose(sums.values, weights @ rows, rtol=1e-10)
    i, j = np.triu_indices(3)
    wanted = (rows.T @ (rows * weights[:, None]))[i, j] * np.where(i == j, 1.0, math.sqrt(2.0))
    np.testing.assert_allclose(moments.values, wanted, rtol=1e-10)


@pytest.mark.parametrize("find", STATISTICS)
@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_of_the_mean_has_its_size(find, secure):
    """Zero rows show the noise alone; z is of both queries together.

    400 times 6 means: a standard deviation that is off by 10 % lies 7 standard errors away (a
    missing ``sqrt(2)`` is 41 %).
    """
    count, z, radius = 50, 3.0, 2.0
    x = np.zeros((count, 6))
    drawn = [
        find(x, radius=radius, noise_multiplier=z, secure_noise=secure).mean for _ in range(400)
    ]
    values = np.concatenate(drawn) * count / radius
    stddev = z * math.sqrt(2.0)
    assert abs(np.std(values) / stddev - 1.0) < 5.0 / math.sqrt(2 * values.size)
    assert abs(np.mean(values)) < 5.0 * stddev / math.sqrt(values.size)


@pytest.mark.parametrize("find", STATISTICS)
def test_more_budget_more_accuracy(find):
    """The multipliers for these budgets are 31, 4.2, 0.65 and 0.16: each a quarter or less."""
    x = np.random.default_rng(3).normal(size=(4000, 4)) * [1.0, 0.5, 0.2, 0.1] + 0.5
    radius = np.linalg.norm(x, axis=1).max()
    errors = []
    for budget in (0.1, 1.0, 10.0, 100.0):
        z = calibrate_noise_multiplier(budget, 1e-5, 1.0, 1)
        assert epsilon(1.0, z, 1, 1e-5) <= budget
        found = [find(x, radius=radius, noise_multiplier=z, seed=s) for s in range(20)]
        errors.append(np.mean([np.linalg.norm(f.mean - x.mean(axis=0)) for f in found]))
    assert all(more > 3.0 * less for more, less in itertools.pairwise(errors)), errors


def test_a_large_budget_whitens_a_correlated_gaussian():
    rng = np.random.default_rng(4)
    mixing = rng.normal(size=(5, 5))
    x = rng.normal([1.0, 0.0, 0.0, -1.0, 0.0], size=(20_000, 5)) @ mixing
    radius = 1.01 * np.linalg.norm(x, axis=1).max()
    found = private_mean_and_whitening(x, radius=radius, noise_multiplier=1e-3)
    white = (x - found.mean) @ found.matrix
    np.testing.assert_allclose(np.cov(white.T), np.eye(5), atol=0.01)
    np.testing.assert_allclose(white.mean(axis=0), 0.0, atol=0.01)
    assert found.typical_norm == pytest.approx(math.sqrt(5), rel=0.01)
    plain = private_mean_and_scale(x, radius=radius, noise_multiplier=1e-3)
    np.testing.assert_allclose(plain.scale, x.std(axis=0), rtol=0.01)
    assert plain.typical_norm == pytest.approx(math.sqrt(5), rel=0.01)


@pytest.mark.parametrize("find", STATISTICS)
@pytest.mark.parametrize(
    "x",
    [
        np.zeros((1, 1)),
        np.zeros((50, 7)),
        np.ones((50, 7)),
        np.full((3, 4), math.nan),
        np.full((3, 4), 1e308),
        np.eye(5, dtype="float32"),
        np.random.default_rng(5).integers(0, 2, (40, 30)),
    ],
    ids=["one", "zeros", "constant", "nan", "huge", "few", "ints"],
)
@pytest.mark.parametrize("z", [0.0, 0.3, 1e4])
def test_scales_and_whitenings_stay_usable(find, x, z):
    found = find(x, radius=1.5, noise_multiplier=z)
    size = x.shape[1]
    least = math.sqrt(1e-4 * 1.5**2 / size)
    assert np.isfinite(found.mean).all() and 1.0 <= found.typical_norm < math.inf
    if find is private_mean_and_scale:
        assert (found.scale >= least * (1 - 1e-12)).all() and np.isfinite(found.scale).all()
        return
    assert (found.matrix == found.matrix.T).all()
    eigenvalues = np.linalg.eigvalsh(found.matrix)
    assert eigenvalues.min() > 0.0 and eigenvalues.max() <= 1 / least * (1 + 1e-12)


def test_noise_alone_is_not_blown_up():
    """Rows of a constant, much noise: the mapped noise of the mean stays of size about 1."""
    x = np.tile([0.5, 0.5, 0.0, 0.0], (1000, 1))
    for find in STATISTICS:
        sizes = []
        for seed in range(50):
            found = find(x, radius=1.0, noise_multiplier=100.0, seed=seed)
            error = x[0] - found.mean
            mapped = error / found.scale if hasattr(found, "scale") else error @ found.matrix
            sizes.append(np.linalg.norm(mapped))
        assert np.mean(sizes) < 2.0


def test_a_seed_repeats_and_no_seed_does_not():
    x = np.ones((10, 2))
    for find in STATISTICS:
        means = [find(x, radius=1, noise_multiplier=1, seed=s).mean for s in (3, 3, None, None)]
        assert (means[0] == means[1]).all()
        assert (means[2] != means[3]).all()


def test_both_queries_together_cost_what_the_multiplier_says():
    x = np.zeros((20, 3))
    for queries in QUERIES:
        asked = queries(unit_rows(x), 2.0)
        found = release(asked, 0.7)
        each = [r.stddev / q.sensitivity for r, q in zip(found, asked, strict=True)]
        assert 0.7 <= effective_multiplier(each) <= 0.7 * (1 + 1e-12)


@pytest.mark.parametrize("find", STATISTICS)
@pytest.mark.parametrize(
    ("x", "changes", "error"),
    [
        (np.ones(3), {}, InvalidData),
        (np.ones((2, 3, 3)), {}, InvalidData),
        (np.ones((0, 3)), {}, InvalidData),
        (np.ones((3, 0)), {}, InvalidData),
        (np.array([["a"]]), {}, InvalidData),
        (np.ones((2, 2), dtype=complex), {}, InvalidData),
        (np.ones((2, 2)), {"radius": 0.0}, InvalidValue),
        (np.ones((2, 2)), {"radius": math.nan}, InvalidValue),
        (np.ones((2, 2)), {"radius": math.inf}, InvalidValue),
        (np.ones((2, 2)), {"noise_multiplier": -1.0}, InvalidValue),
        (np.ones((2, 2)), {"noise_multiplier": math.inf}, InvalidValue),
        (np.ones((2, 2)), {"groups": [1]}, InvalidData),
        (np.ones((2, 2)), {"groups": [1.0, math.nan]}, InvalidData),
        (np.ones((2, 2)), {"groups": ["a", None]}, InvalidData),
        (np.ones((2, 2)), {"groups": [[1, 2], [3, 4]]}, InvalidData),
    ],
)
def test_bad_arguments_are_refused(find, x, changes, error):
    with pytest.raises(error):
        find(x, **{"radius": 1.0, "noise_multiplier": 1.0, **changes})
