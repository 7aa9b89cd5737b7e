"""Which cells a report picks: always by the mean over seeds, never by the best seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lipdp.reports.sections import Cell


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


T = TypeVar("T")


def pareto_front(cells: Sequence[Cell]) -> list[Cell]:
    """Cells that no other one beats in epsilon and mean accuracy, by epsilon."""
    costs = [(cell.epsilon, -cell.accuracy.mean) for cell in cells]
    return _kept(cells, costs)


def best_by_epsilon(cells: Sequence[Cell]) -> list[Cell]:
    """The most accurate cell of each method at each epsilon, by epsilon."""
    best: dict[tuple[float, str], Cell] = {}
    for cell in cells:
        key = (cell.epsilon, cell.method)
        if key not in best or cell.accuracy.mean > best[key].accuracy.mean:
            best[key] = cell
    return [best[key] for key in sorted(best)]


def robust_pareto_front(cells: Sequence[Cell], unit: str, radius: float) -> list[Cell]:
    """Cells that no other one beats in epsilon, mean accuracy and mean certified accuracy."""
    found = [(cell, cell.certified(unit, radius)) for cell in cells]
    known = [(cell, value) for cell, value in found if value is not None]
    costs = [(cell.epsilon, -cell.accuracy.mean, -value.mean) for cell, value in known]
    return _kept([cell for cell, _ in known], costs)


def spread_out(values: Sequence[T], most: int) -> list[T]:
    """At most so many, evenly by position, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _kept(cells: Sequence[Cell], costs: Sequence[tuple[float, ...]]) -> list[Cell]:
    kept = [cell for cell, keep in zip(cells, non_dominated(costs), strict=True) if keep]
    return sorted(kept, key=lambda cell: cell.epsilon)
