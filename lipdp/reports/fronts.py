"""What no other point beats."""

from __future__ import annotations

from collections.abc import Sequence


def non_dominated(costs: Sequence[tuple[float, ...]]) -> list[bool]:
    """Which points no other one dominates: as good everywhere, and better somewhere.

    Equal points do not dominate each other. No mixture of points is made up between them, as a
    convex hull would: no mechanism was trained that attains it.

    Args:
        costs: One tuple a point, all of one length; smaller is better in each place.
    """
    return [not any(_dominates(other, point) for other in costs) for point in costs]


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
