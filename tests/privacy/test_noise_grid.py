import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.privacy.secure_noise import RoundedGaussian, grid_of, largest_sum, rounded_sensitivity

_REACH = 40


def _release(gradient, grid, k, most, dtype):
    """One step as an optimizer computes it."""
    scaled = np.clip(gradient, -most, most) / np.asarray(grid, gradient.dtype)
    whole = np.round(scaled).astype(dtype) + k.astype(dtype)
    return whole.astype(gradient.dtype) * np.asarray(grid, gradient.dtype)


@given(
    multiplier=st.floats(1e-3, 1e3), sensitivity=st.floats(1e-8, 1e8), size=st.integers(1, 10**9)
)
@example(multiplier=1.0, sensitivity=1.0, size=1)
@example(multiplier=1.0, sensitivity=1.0, size=4)
@example(multiplier=0.9999999999999999, sensitivity=1.0, size=3)
def test_the_grid_is_the_coarsest_that_satisfies_both(multiplier, sensitivity, size):
    stddev = multiplier * sensitivity

    def fine(w):
        return w * 1024 <= Fraction(stddev) and w * w * size * 2**20 <= Fraction(sensitivity) ** 2

    grid = grid_of(stddev, sensitivity, size)
    assert math.frexp(grid)[0] == 0.5
    assert fine(Fraction(grid)) and not fine(2 * Fraction(grid))
    assert rounded_sensitivity(sensitivity, grid, size) <= sensitivity * (1 + 2.0**-9)


@given(st.floats(0.0, 1e9), st.integers(-90, 90), st.integers(1, 10**12))
def test_the_rounded_sensitivity_is_rounded_up(sensitivity, exponent, size):
    grid = 2.0**exponent
    value = Fraction(rounded_sensitivity(sensitivity, grid, size)) - Fraction(sensitivity)
    assert value >= 0 and value**2 >= Fraction(grid) ** 2 * size


def test_neighbours_come_close_to_the_rounded_sensitivity():
    """Entries just below and above half a grid width: half of w sqrt(n) would not be enough."""
    size, grid = 100, 2.0**-4
    low, high = np.full(size, grid / 2 * (1 - 2e-9)), np.full(size, grid / 2 * (1 + 2e-9))
    rounded = [np.round(g / grid) * grid for g in (low, high)]
    between, after = np.linalg.norm(high - low), np.linalg.norm(rounded[1] - rounded[0])
    assert between + grid * math.sqrt(size) / 2 < after
    assert after <= rounded_sensitivity(between, grid, size) < after * (1 + 1e-8)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1, 1)), min_size=1, max_size=20))
@example([(0.49999999999999994, 1e-15), (1e6, 1.0), (-0.5, 1.0)])
def test_no_neighbours_exceed_the_rounded_sensitivity(pairs):
    g = np.array([pair[0] for pair in pairs])
    h = g + np.array([pair[1] for pair in pairs])
    grid, most = 0.25, 2.0**19
    rounded = [np.round(np.clip(x, -most, most) / grid) * grid for x in (g, h)]
    distance = math.sqrt(sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(g, h, strict=True)))
    after = sum(Fraction(a - b) ** 2 for a, b in zip(*rounded, strict=True))
    assert after <= Fraction(rounded_sensitivity(math.nextafter(distance, 2e9), grid, len(g))) ** 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ratio", [16.0, 1027.3, 200_000.7])
@pytest.mark.parametrize("grid", [2.0**-90, 2.0**-7, 2.0**90])
def test_no_sum_rounds(dtype, ratio, grid):
    most = largest_sum(ratio * grid, grid, dtype)
    reach = math.floor(_REACH * ratio)
    assert most >= _REACH * ratio * grid and np.asarray(most, dtype) == most
    whole = round(most / grid)
    for s in (whole, whole - 1, -whole, 0, 1):
        for k in (reach, -reach, 1, 0):
            gradient = np.array([s * grid], dtype)
            released = _release(gradient, grid, np.array([k]), most, dtype)
            assert Fraction(float(released[0])) == (s + k) * Fraction(grid)
    # The limit is not there for nothing: it leaves no room for one more.
    assert whole + math.ceil(_REACH * ratio) == {"float32": 2**24, "float64": 2**53}[dtype]


@given(st.floats(-(2.0**100), 2.0**100, width=32), st.integers(16, 2**24))
@example(2.0**31, 2**24)
@example(-(2.0**30) - 64, 2**24)
@example(8388607.5, 1024)
def test_float32_sums_are_exact_in_int32(value, ratio):
    most = largest_sum(float(ratio), 1.0, "int32")
    assert np.float32(most) == most and most >= _REACH * ratio
    scaled = np.round(np.clip(np.float32(value), -np.float32(most), np.float32(most)))
    exact = max(-most, min(most, round(Fraction(float(np.float32(value))))))
    for k in (_REACH * ratio, -_REACH * ratio, 0):
        assert int(scaled.astype(np.int32)) + k == exact + k
        assert abs(exact + k) <= 2**31 - 1


def test_float32_names_the_way_out_where_it_has_no_room():
    stddev, size = 1.0, 10**6
    grid = grid_of(stddev, 1.0, size)
    with pytest.raises(UnsafeSetting, match="float64"):
        largest_sum(stddev, grid, "float32")
    assert largest_sum(stddev, grid, "float64") > 1e6 and largest_sum(stddev, grid, "int32") > 900
    assert largest_sum(stddev, grid_of(stddev, 1.0, 1000), "float32") > 200
    with pytest.raises(UnsafeSetting, match="float16"):
        largest_sum(stddev, grid, "float16")


def test_the_release_depends_on_the_grid_point_alone():
    """Two sums that differ in their low bits only, and every noise: equal to the last bit."""
    stddev, size = 3.0, 1000
    grid = grid_of(stddev, 1.0, size)
    points = np.random.default_rng(5).integers(-(10**6), 10**6, size) * grid
    low = np.random.default_rng(6).uniform(-0.49, 0.49, (2, size)) * grid
    k = RoundedGaussian().draw(stddev, grid, size)
    most = largest_sum(stddev, grid, "float64")
    one, other = (_release(points + bits, grid, k, most, "float64") for bits in low)
    assert not np.array_equal(points + low[0], points + low[1])
    assert np.array_equal(one, other)


def test_naive_sums_show_what_was_added_and_grids_do_not():
    """0 + noise takes values near 0 that 1 + noise cannot: the latter are multiples of 2^-53."""
    size, stddev = 20_000, 1.0
    naive = np.random.default_rng(7).normal(0.0, stddev, size)
    tell = {}
    for s in (0.0, 1.0):
        near = (s + naive)[np.abs(s + naive) < 0.25]
        tell[s] = np.mean(near * 2.0**53 != np.round(near * 2.0**53))
    assert tell[0.0] > 0.5 and tell[1.0] == 0.0

    grid = grid_of(stddev, 1.0, 1)
    k, most = RoundedGaussian().draw(stddev, grid, size), largest_sum(stddev, grid, "float64")
    released = {s: _release(np.full(size, s), grid, k, most, "float64") for s in (0.0, 1.0)}
    for values in released.values():
        assert np.array_equal(values / grid, np.round(values / grid))
    # A value released from one sum is released from the other by a k one shift away, exactly.
    assert np.array_equal(released[1.0] - released[0.0], np.ones(size))


@pytest.mark.parametrize(
    "arguments",
    [
        *[(0.0, 1.0, 1), (1.0, 0.0, 1), (1.0, math.inf, 1), (1.0, 1.0, 0), (1.0, 1.0, 2.5)],
        *[(math.nan, 1.0, 1), (5e-324, 1.0, 1), (1.0, 1e-300, 1), (1e300, 1e300, 1)],
        *[(1e10, 1.0, 10**6), (True, 1.0, 1), ("1", 1.0, 1)],
    ],
)
def test_refuses(arguments):
    with pytest.raises(InvalidValue):
        grid_of(*arguments)


def test_refuses_other_grids_and_sensitivities():
    for sensitivity, grid in [(-1.0, 1.0), (math.inf, 1.0), (1.0, 0.3), (1.0, 2.0**91), (1.0, 0.0)]:
        with pytest.raises(InvalidValue):
            rounded_sensitivity(sensitivity, grid, 1)
    with pytest.raises(InvalidValue):
        largest_sum(1.0, 0.3, "float64")
