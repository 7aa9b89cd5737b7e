"""Forms of cotangents against the greatest value that they can take."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.bounds.cotangent import Cotangent, joint_bound, part

JOINS = {0: 2, 1: 3}
PARTS = [(join, i) for join, count in JOINS.items() for i in range(count)]

size = st.floats(0.0, 1e6)
form = st.builds(
    Cotangent, size, st.dictionaries(st.sampled_from(PARTS), size, min_size=0, max_size=5)
)


def value(cotangent, norms):
    return cotangent.constant + sum(s * norms[p] for p, s in cotangent.shares.items())


def shared_norms(rng):
    """Norms of the parts of each concatenation, whose squares sum to 1."""
    norms = {}
    for join, count in JOINS.items():
        split = np.abs(rng.normal(size=count))
        split /= np.linalg.norm(split)
        norms.update({(join, i): float(s) for i, s in enumerate(split)})
    return norms


@given(form, st.integers(0, 1000))
@example(Cotangent(1.0, {(0, 0): 3.0, (0, 1): 4.0}), 0)
def test_no_split_of_a_cotangent_is_above_its_bound(cotangent, seed):
    rng = np.random.default_rng(seed)
    values = [value(cotangent, shared_norms(rng)) for _ in range(20)]
    assert max(values) <= cotangent.bound * (1 + 1e-12)
    assert cotangent.bound <= cotangent.triangle * (1 + 1e-12)


@given(form)
def test_the_bound_is_attained_by_the_split_along_the_shares(cotangent):
    norms = {}
    for join in JOINS:
        shares = {p: cotangent.shares.get(p, 0.0) for p in PARTS if p[0] == join}
        whole = math.hypot(*shares.values())
        norms.update({p: s / whole if whole > 0 else 0.0 for p, s in shares.items()})
    assert value(cotangent, norms) == pytest.approx(cotangent.bound, rel=1e-9, abs=1e-300)


@given(st.lists(form, min_size=1, max_size=4), st.integers(0, 1000))
@example([Cotangent(0.0, {(0, 0): 1.0}), Cotangent(0.0, {(0, 0): 1.0, (0, 1): 1.0})], 0)
def test_several_cotangents_together(cotangents, seed):
    rng = np.random.default_rng(seed)
    bound = joint_bound(cotangents)
    for _ in range(20):
        norms = shared_norms(rng)
        assert math.hypot(*(value(c, norms) for c in cotangents)) <= bound * (1 + 1e-12)
    assert bound <= math.hypot(*(c.bound for c in cotangents)) * (1 + 1e-12)


def test_the_golden_ratio_of_a_sum_beside_its_term():
    one = Cotangent(0.0, {(0, 0): 1.0, (0, 1): 1.0})
    other = Cotangent(0.0, {(0, 1): 1.0})
    assert joint_bound([one, other]) == pytest.approx((1 + math.sqrt(5)) / 2, rel=1e-9)


@given(form, form, st.floats(0.0, 1e3), st.integers(0, 100))
def test_sums_and_multiples_are_those_of_the_values(a, b, factor, seed):
    norms = shared_norms(np.random.default_rng(seed))
    assert value(a + b, norms) == pytest.approx(value(a, norms) + value(b, norms))
    assert value(a * factor, norms) == pytest.approx(factor * value(a, norms), rel=1e-9, abs=1e-300)


def test_branches_of_one_concatenation_meet_at_right_angles():
    assert (part(0, 0, 3.0) + part(0, 1, 4.0)).bound == 5.0
    assert (part(0, 0, 3.0) + part(1, 0, 4.0)).bound == 7.0
    assert (part(0, 0, 3.0) + part(0, 0, 4.0)).bound == 7.0
    assert (part(0, 0, 3.0) + part(0, 1, 4.0)).triangle == 7.0


@pytest.mark.parametrize(
    "cotangent",
    [
        Cotangent(math.inf) * 0.0,
        Cotangent(0.0) * math.inf,
        part(0, 0, 0.0) * math.inf,
        part(0, 0, math.inf) + part(0, 1, 0.0),
        part(0, 0, math.inf) * 0.0,
    ],
)
def test_no_bound_stays_no_bound(cotangent):
    assert cotangent.bound == math.inf
    assert joint_bound([cotangent, Cotangent(1.0)]) == math.inf
