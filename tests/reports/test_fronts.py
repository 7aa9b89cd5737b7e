"""The front against brute force and against another algorithm."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.reports.selection import non_dominated

SMALL = st.integers(0, 4).map(float)


@given(st.lists(st.tuples(SMALL, SMALL, SMALL), max_size=10))
@example([(1.0, 1.0, 1.0), (1.0, 1.0, 1.0)])
@example([(1.0, 2.0, 3.0), (1.0, 2.0, 2.0)])
def test_brute_force_in_three_dimensions(points):
    found = non_dominated(points)
    for point, kept in zip(points, found, strict=True):
        beaten = False
        for other in points:
            nowhere_worse = all(other[i] <= point[i] for i in range(3))
            somewhere_better = any(other[i] < point[i] for i in range(3))
            beaten = beaten or (nowhere_worse and somewhere_better)
        assert kept is not beaten


@given(st.lists(st.tuples(SMALL, SMALL), max_size=12))
def test_a_sweep_from_left_to_right_finds_the_same_steps(points):
    lowest, expected = float("inf"), set()
    for x in sorted({x for x, _ in points}):
        y = min(y for at, y in points if at == x)
        if y < lowest:
            lowest = y
            expected.add((x, y))
    found = {p for p, kept in zip(points, non_dominated(points), strict=True) if kept}
    assert found == expected


def test_a_point_under_the_hull_stays_on_the_front():
    # The middle one lies below the line between its neighbours, which nobody attains.
    assert non_dominated([(1.0, -0.8), (3.0, -0.81), (5.0, -0.9)]) == [True, True, True]
