import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue, UnboundedGradient, UnknownName
from lipdp.privacy import ALLOCATIONS, allocate, effective_multiplier

BOUNDS, SIZES = [1.0, 2.0, 0.5], [100, 10, 1000]


def test_effective_multiplier():
    assert effective_multiplier([2.0] * 4) == 1.0
    assert effective_multiplier([3.0]) == 3.0
    assert effective_multiplier([1.0, math.inf]) == 1.0
    assert effective_multiplier([1.0, 0.0]) == 0.0
    assert effective_multiplier([]) == math.inf
    assert effective_multiplier([3.0, 4.0]) == pytest.approx(2.4)
    assert effective_multiplier([1e-200, 1e-200]) == pytest.approx(1e-200 / math.sqrt(2))


@pytest.mark.parametrize("bad", [-1.0, math.nan, "2", None])
def test_effective_multiplier_refuses(bad):
    with pytest.raises(InvalidValue):
        effective_multiplier([1.0, bad])


def test_global():
    assert allocate(BOUNDS, SIZES, 2.0, "global") == pytest.approx([2 * math.sqrt(5.25)] * 3)


def test_per_layer():
    expected = [2 * math.sqrt(3) * bound for bound in BOUNDS]
    assert allocate(BOUNDS, SIZES, 2.0, "per-layer") == pytest.approx(expected)


def test_optimal_is_the_formula_and_the_least_energy():
    total = sum(d * math.sqrt(n) for d, n in zip(BOUNDS, SIZES, strict=True))
    expected = [2 * math.sqrt(total * d / math.sqrt(n)) for d, n in zip(BOUNDS, SIZES, strict=True)]
    best = allocate(BOUNDS, SIZES, 2.0, "optimal")
    assert best == pytest.approx(expected)

    def energy(deviations):
        return float(np.dot(SIZES, np.square(deviations)))

    generator = np.random.default_rng(0)
    for _ in range(200):
        weights = np.exp(generator.normal(0, 0.3, 3)) * best
        scaled = weights * 2.0 * math.sqrt(np.sum(np.square(BOUNDS) / np.square(weights)))
        assert energy(scaled) >= energy(best) * (1 - 1e-12)
    for name in ALLOCATIONS:
        assert energy(allocate(BOUNDS, SIZES, 2.0, name)) >= energy(best)


@given(
    variables=st.lists(
        st.tuples(st.floats(1e-100, 1e100), st.integers(1, 10**9)), min_size=1, max_size=12
    ),
    noise=st.floats(1e-3, 1e3),
    name=st.sampled_from(sorted(ALLOCATIONS)),
)
def test_no_allocation_costs_more_than_the_multiplier(variables, noise, name):
    bounds, sizes = zip(*variables, strict=True)
    deviations = np.array(allocate(bounds, sizes, noise, name))
    assert math.fsum((np.array(bounds) / deviations) ** 2) <= 1.0 / noise**2
    found = effective_multiplier(deviations / bounds)
    assert found == pytest.approx(noise, rel=1e-12)


def test_a_variable_without_gradient_gets_no_noise_and_does_not_count():
    assert allocate([0.0, 3.0], [5, 5], 2.0, "per-layer") == [0.0, pytest.approx(6.0)]
    assert allocate([0.0], [5], 2.0, "optimal") == [0.0]
    assert allocate([], [], 2.0, "optimal") == []
    assert allocate([1.0, 2.0], [5, 5], 0.0, "global") == [0.0, 0.0]


@pytest.mark.parametrize("bound", [math.inf, math.nan])
def test_unbounded_gradients_are_refused(bound):
    with pytest.raises(UnboundedGradient):
        allocate([1.0, bound], [5, 5], 1.0, "optimal")


@pytest.mark.parametrize(
    ("bounds", "sizes"), [([-1.0], [5]), ([1.0], [0]), ([1.0, 1.0], [5]), ([[1.0]], [[5]])]
)
def test_bad_shapes_and_signs_are_refused(bounds, sizes):
    with pytest.raises(InvalidValue):
        allocate(bounds, sizes, 1.0, "global")


def test_unknown_strategy_is_refused():
    with pytest.raises(UnknownName, match="per-layer"):
        allocate(BOUNDS, SIZES, 1.0, "equal")
