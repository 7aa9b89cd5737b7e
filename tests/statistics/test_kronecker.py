"""Private whitening of maps: what a neighbour changes, what the noise is, what is left.

The searches maximise the change of a query over its public sensitivity, which must never exceed 1;
the oracle of the moments is an own sum row by row.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy import effective_multiplier
from lipdp.statistics import private_kronecker_whitening
from lipdp.statistics.kronecker import kronecker_queries
from lipdp.statistics.mechanism import clip_rows, release, symmetric, unit_rows

POSITIONS, CHANNELS = 2, 3

rows_of = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.just(POSITIONS * CHANNELS)),
    elements=st.floats(-4, 4) | st.sampled_from([math.nan, math.inf, -1e308, 1e-320, 5.0]),
)


def queries(rows, radius, groups=None):
    return kronecker_queries(unit_rows(rows, groups), radius, POSITIONS)


def change(x, y, radius, groups=None):
    """Change of each query over its sensitivity, the smaller of the two; groups are those of x."""
    ids = (None, None) if groups is None else (groups, groups[: len(y)])
    both = [queries(rows, radius, i) for rows, i in zip((x, y), ids, strict=True)]
    pairs = [sorted(pair, key=lambda q: q.sensitivity) for pair in zip(*both, strict=True)]
    return [np.linalg.norm(a.values - b.values) / b.sensitivity for a, b in pairs]


def separable(count, seed=0, mean=0.0):
    """Maps whose covariance has Kronecker form."""
    rng = np.random.default_rng(seed)
    left, right = (np.eye(n) + 0.3 * rng.normal(size=(n, n)) for n in (POSITIONS, CHANNELS))
    maps = left @ rng.normal(size=(count, POSITIONS, CHANNELS)) @ right
    return maps.reshape(count, -1) + mean


@pytest.mark.parametrize("radius", [0.5, 3.0, 1e-20, 1e20])
@given(rows=rows_of, scale=st.sampled_from([1.0, 1e30]))
@example(rows=np.eye(2, 6) * 5.0, scale=1.0)
@example(rows=np.array([[1.0] * 6, [math.nan] + [0.0] * 5]), scale=1.0)
def test_no_neighbour_changes_a_query_by_more_than_its_sensitivity(radius, rows, scale):
    with np.errstate(over="ignore"):
        rows = rows * scale
    one_less = rows[:-1] if len(rows) > 1 else np.zeros((1, rows.shape[1]))
    assert max(change(rows, one_less, radius)) <= 1.0
    blank = rows.copy()
    blank[-1] = 0.0
    assert max(change(rows, blank, radius)) <= 1.0


def test_a_map_of_rank_one_changes_each_query_by_its_sensitivity():
    """And no other map does, so a smaller sensitivity would be wrong, and a search can fail."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(3, 6))
    for _ in range(50):
        one = np.outer(rng.normal(size=POSITIONS), rng.normal(size=CHANNELS)).reshape(1, -1)
        reached = change(np.vstack([base, 99.0 * one]), base, 2.0)
        assert max(reached) <= 1.0 and min(reached) > 1.0 - 1e-9
    two = np.array([[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]]) * 99.0
    reached = change(np.vstack([base, two]), base, 2.0)
    assert reached == pytest.approx([1.0, math.sqrt(0.5), math.sqrt(0.5)], abs=1e-9)


def test_the_worst_map_is_found_by_ascent():
    """Of each query by itself, from random maps: the sensitivity is reached and not exceeded."""
    rng = np.random.default_rng(1)
    base = rng.normal(size=(3, 6))
    for which in range(3):
        best, row = 0.0, rng.normal(size=(1, 6))
        for step in np.geomspace(1.0, 1e-3, 400):
            tried = row + step * rng.normal(size=(1, 6))
            found = change(np.vstack([base, tried]), base, 2.0)
            assert max(found) <= 1.0
            if found[which] >= best:
                best, row = found[which], tried
        assert best > 0.999


@given(rows=rows_of, own=rows_of, copies=st.integers(1, 200))
@example(rows=np.zeros((1, 6)), own=np.array([[9.0, 0, 0, 0, 0, 0]] * 2), copies=200)
def test_a_user_with_any_number_of_rows_counts_as_one_row(rows, own, copies):
    own = np.tile(own, (copies, 1))
    users = np.array(["others"] * len(rows) + ["new"] * len(own), dtype=object)
    found = change(np.vstack([rows, own]), rows, 2.0, users)
    assert max(found) <= 1.0
    if (own[:, 0] == 9.0).all():
        assert found == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("grouped", [False, True])
def test_queries_are_the_moments_of_maps_over_many_blocks(grouped):
    rng = np.random.default_rng(2)
    x, groups = rng.normal(size=(9001, 6)), rng.integers(0, 50, 9001) ** 2 // 100
    sums, channel, spatial = queries(x, 2.0, groups if grouped else None)
    maps = clip_rows(x, 2.0).reshape(-1, POSITIONS, CHANNELS)
    weights = 1.0 / np.bincount(groups)[groups] if grouped else np.ones(9001)
    oracle = [np.zeros((CHANNELS, CHANNELS)), np.zeros((POSITIONS, POSITIONS))]
    for w, m in zip(weights, maps, strict=True):
        oracle[0] += w * m.T @ m
        oracle[1] += w * m @ m.T
    wanted = (weights[:, None, None] * maps).sum(axis=0)
    np.testing.assert_allclose(sums.values.reshape(wanted.shape), wanted, rtol=1e-10)
    np.testing.assert_allclose(symmetric(channel.values, CHANNELS), oracle[0], rtol=1e-10)
    np.testing.assert_allclose(symmetric(spatial.values, POSITIONS), oracle[1], rtol=1e-10)


def test_rounding_of_sums_over_positions_is_inside_the_sensitivity():
    """An entry sums rows and positions; against sums in exact arithmetic of the same rows."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5000, 64)) * 10.0 ** rng.integers(-8, 3, (5000, 1))
    query = kronecker_queries(unit_rows(x), 1.0, 64)[1]
    exact = math.fsum((clip_rows(x, 1.0) ** 2).ravel())
    assert 2.0 * abs(query.values.item() - exact) <= query.sensitivity - 1.0
    few = kronecker_queries(unit_rows(x), 1.0, 1)[1].sensitivity
    assert few < query.sensitivity < 1.0 + 1e-6


@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_of_the_mean_has_its_size(secure):
    """Zero rows show the noise alone; z is of the three queries together.

    400 times 6 means: a standard deviation that is off by 10 % lies 7 standard errors away.
    """
    count, z, radius = 50, 3.0, 2.0
    options = {"positions": 2, "radius": radius, "noise_multiplier": z, "secure_noise": secure}
    drawn = [private_kronecker_whitening(np.zeros((count, 6)), **options) for _ in range(400)]
    values = np.concatenate([d.mean for d in drawn]) * count / radius
    stddev = z * math.sqrt(3.0)
    assert abs(np.std(values) / stddev - 1.0) < 5.0 / math.sqrt(2 * values.size)
    assert abs(np.mean(values)) < 5.0 * stddev / math.sqrt(values.size)


def test_all_queries_together_cost_what_the_multiplier_says():
    asked = queries(np.zeros((20, 6)), 2.0)
    found = release(asked, 0.7)
    each = [r.stddev / q.sensitivity for r, q in zip(found, asked, strict=True)]
    assert 0.7 <= effective_multiplier(each) <= 0.7 * (1 + 1e-12)


def test_a_large_budget_whitens_maps_of_separable_covariance():
    x = separable(20_000, mean=0.7)
    radius = 1.01 * np.linalg.norm(x, axis=1).max()
    found = private_kronecker_whitening(x, positions=2, radius=radius, noise_multiplier=1e-3)
    white = (found.spatial @ (x.reshape(-1, 2, 3) - found.mean) @ found.channel).reshape(-1, 6)
    # Up to the public floor of 1e-4 R^2 / d.
    np.testing.assert_allclose(np.cov(white.T), np.eye(6), atol=0.05)
    np.testing.assert_allclose(white.mean(axis=0), 0.0, atol=0.01)
    assert found.typical_norm == pytest.approx(math.sqrt(6), rel=0.02)


def test_more_budget_more_accuracy():
    x = separable(4000)
    radius = np.linalg.norm(x, axis=1).max()
    exact = private_kronecker_whitening(x, positions=2, radius=radius, noise_multiplier=0.0)
    errors = []
    for z in (100.0, 10.0, 1.0, 0.1):
        options = {"positions": 2, "radius": radius, "noise_multiplier": z}
        found = [private_kronecker_whitening(x, **options, seed=s) for s in range(20)]
        errors.append(
            np.mean([np.linalg.norm(f.channel - exact.channel) for f in found])
            + np.mean([np.linalg.norm(f.mean - exact.mean) for f in found])
        )
    assert errors == sorted(errors, reverse=True) and errors[0] > 10.0 * errors[-1], errors


@pytest.mark.parametrize("positions", [1, 3, 6])
@pytest.mark.parametrize(
    "x",
    [
        np.zeros((1, 6)),
        np.ones((50, 6)),
        np.full((3, 6), math.nan),
        np.full((3, 6), 1e308),
        np.eye(5, 6, dtype="float32"),
        np.random.default_rng(5).integers(0, 2, (40, 6)),
    ],
    ids=["one", "constant", "nan", "huge", "few", "ints"],
)
@pytest.mark.parametrize("z", [0.0, 0.3, 1e4])
@pytest.mark.parametrize("radius", [1.5, 1e-20, 1e20])
def test_whitenings_stay_usable(x, positions, z, radius):
    found = private_kronecker_whitening(x, positions=positions, radius=radius, noise_multiplier=z)
    assert np.isfinite(found.mean).all() and 1.0 <= found.typical_norm < math.inf
    assert found.mean.shape == (positions, 6 // positions)
    for matrix, size in ((found.spatial, positions), (found.channel, 6 // positions)):
        assert matrix.shape == (size, size) and (matrix == matrix.T).all()
        eigenvalues = np.linalg.eigvalsh(matrix)
        assert eigenvalues.min() > 0.0 and eigenvalues.max() < math.inf
    # What a row of norm R is mapped to is bounded too: nothing is blown up without end.
    longest = radius * np.linalg.norm(found.spatial, 2) * np.linalg.norm(found.channel, 2)
    assert longest <= 1e4 * 6


def test_noise_alone_is_not_blown_up():
    """Rows of a constant, much noise: the mapped noise of the mean stays of size about 1."""
    x = np.tile([0.5, 0.5, 0.0, 0.0, 0.5, 0.5], (1000, 1))
    sizes = []
    options = {"positions": 2, "radius": 1.0, "noise_multiplier": 100.0}
    for seed in range(50):
        found = private_kronecker_whitening(x, **options, seed=seed)
        error = x[0].reshape(2, 3) - found.mean
        sizes.append(np.linalg.norm(found.spatial @ error @ found.channel))
    assert np.mean(sizes) < 4.0


def test_a_seed_repeats_and_no_seed_does_not():
    x = np.ones((10, 6))
    options = {"positions": 3, "radius": 1.0, "noise_multiplier": 1.0}
    found = [private_kronecker_whitening(x, **options, seed=s) for s in (3, 3, None, None)]
    assert (found[0].channel == found[1].channel).all()
    assert (found[2].channel != found[3].channel).any()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"x": np.ones((2, 2, 3))}, InvalidData),
        ({"x": np.array([["a"]])}, InvalidData),
        ({"positions": 4}, InvalidValue),
        ({"positions": 0}, InvalidValue),
        ({"positions": 1.5}, InvalidValue),
        ({"positions": 12}, InvalidValue),
        ({"radius": math.nan}, InvalidValue),
        ({"noise_multiplier": -1.0}, InvalidValue),
        ({"groups": [1]}, InvalidData),
    ],
)
def test_bad_arguments_are_refused(changes, error):
    given = {"x": np.ones((2, 6)), "positions": 2, "radius": 1.0, "noise_multiplier": 1.0}
    with pytest.raises(error):
        private_kronecker_whitening(**{**given, **changes})
