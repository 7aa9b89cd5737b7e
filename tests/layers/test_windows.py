"""Which positions windows read, by plain loops."""

import math
import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.layers.windows import PADDINGS, Windows, coverage


@st.composite
def axes(draw, paddings=PADDINGS):
    n, k, s, d = (draw(st.integers(1, most)) for most in (9, 5, 5, 4))
    padding = draw(st.sampled_from(paddings))
    n = max(n, (k - 1) * d + 1) if padding == "valid" else n
    return Windows(n, k, s, d, padding)


def starts(axis):
    """First position of each window before the shift by padding."""
    room = axis.size - (axis.window - 1) * axis.dilation if axis.padding == "valid" else axis.size
    return range(0, room, axis.stride)


def shifts(axis):
    """Every way to split the padding that the windows need."""
    if axis.padding == "valid":
        return [0]
    beyond = starts(axis)[-1] + (axis.window - 1) * axis.dilation + 1 - axis.size
    if axis.padding == "causal":
        return [(axis.window - 1) * axis.dilation]
    return range(max(beyond, 0) + 1) if axis.padding == "same" else [max(beyond, 0) // 2]


def reads(axis, left):
    """(window, tap) to position, None for padding."""
    pairs = {}
    for o, start in enumerate(starts(axis)):
        for t in range(axis.window):
            position = start - left + t * axis.dilation
            if axis.padding == "circular":
                position %= axis.size
            pairs[o, t] = position if 0 <= position < axis.size else None
    return pairs


def most_read(axis):
    tables = [list(reads(axis, left).values()) for left in shifts(axis)]
    return max(table.count(p) for table in tables for p in range(axis.size))


@given(axis=axes())
@example(axis=Windows(2, 3, padding="circular"))
@example(axis=Windows(7, 4, 3, padding="circular"))
@example(axis=Windows(3, 2, 2, padding="same"))
def test_readings(axis):
    assert axis.count == len(starts(axis))
    lefts = shifts(axis)
    layouts = list(axis.layouts())
    assert len(layouts) == len(lefts)
    for table, left in zip(layouts, lefts, strict=True):
        assert table.shape == (axis.count, axis.window)
        for (o, t), position in reads(axis, left).items():
            assert table[o, t] == (-1 if position is None else position)
    if axis.padding in ("same", "circular"):
        assert axis.total_padding // 2 in (lefts if axis.padding == "same" else [lefts[0]])


@given(axis=axes())
@example(axis=Windows(2, 3, padding="circular"))
@example(axis=Windows(7, 4, 3, padding="circular"))
@example(axis=Windows(5, 3, 2, 2, "circular"))
@example(axis=Windows(1, 3, padding="same"))
def test_coverage_by_enumeration(axis):
    assert axis.coverage == most_read(axis) <= axis.coverage_formula


@given(axis=axes(paddings=("same", "valid", "causal")), data=st.data())
def test_closed_form_is_attained_inside_a_long_axis(axis, data):
    s, d, k = axis.stride, axis.dilation, axis.window
    spaced = math.ceil(k / (s / math.gcd(s, d)))
    long = Windows(4 * k * d * s, k, s, d, axis.padding)
    assert long.coverage == long.coverage_formula == spaced


def test_the_number_of_windows_is_no_bound_on_a_circle():
    axis = Windows(2, 3, padding="circular")
    assert axis.count == 2
    assert axis.coverage == 3


@given(grid=st.lists(axes(paddings=("same", "valid", "circular")), min_size=1, max_size=3))
def test_coverage_of_a_grid_is_the_greatest_norm_of_all_patches(grid):
    """``||P(x)||_F^2 = sum_p (pairs that read p) x_p^2``, counted position by position."""
    times = np.ones(())
    for axis in grid:
        per_layout = [np.bincount(t[t >= 0], minlength=axis.size) for t in axis.layouts()]
        times = np.multiply.outer(times, max(per_layout, key=max))
    assert coverage(grid) == times.max()


def test_long_axes_are_counted_in_little_time():
    start = time.process_time()
    assert Windows(50_000, 50, 1, padding="same").coverage == 50
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize("axis", [(2, 3), (4, 3, 1, 2)])
def test_windows_longer_than_their_axis_are_refused(axis):
    with pytest.raises(InvalidValue, match="longer than its axis"):
        Windows(*axis)


def test_other_paddings_are_refused():
    with pytest.raises(InvalidValue, match="no such padding"):
        Windows(4, 2, padding="reflect")
