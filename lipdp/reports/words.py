"""Sentences that a report makes of its numbers."""

from __future__ import annotations

from lipdp.reports.cells import Cell, Section
from lipdp.reports.cost import Cost
from lipdp.reports.methods import held_out, method_name
from lipdp.reports.page import number, number_up, percent
from lipdp.reports.selection import best_by_epsilon, spread_out

_RELATIONS = {
    "add-remove": "one {unit} added or removed",
    "zero-out": "one {unit} replaced by an empty one",
    "replace-one": "one {unit} replaced by any other",
}
_MOST_LEVELS = 4


def neighbours(section: Section) -> str:
    """How neighbouring data sets differ."""
    words = _RELATIONS.get(section.adjacency, section.adjacency)
    return words.format(unit="user with all their rows" if section.group else "row")


def summary(section: Section, cost: Cost | None, name: str) -> list[str]:
    """What came out, in sentences for somebody who did not run it.

    Args:
        section: Runs that may be compared.
        cost: What they cost; None without private ones.
        name: What the section is called, where the data alone do not tell it from others.
    """
    found = [*_utility(section, name), *_robustness(section)]
    return [*found, _price(section, cost)] if cost is not None else found


def _utility(section: Section, name: str) -> list[str]:
    reached = "; ".join(_reached(section, method) for method in section.methods)
    first = section.everything[0].results[0]
    rest = [
        f"{percent(cell.accuracy.mean)} ({method_name(cell.method, without_noise=True)})"
        for cell in best_by_epsilon(section.references)
    ]
    rest.append(
        f"{percent(first.test.majority_accuracy)} (always answering the most frequent class)"
    )
    sentences = [f"On {name}, {held_out(first)} accuracy reached {reached}."] if reached else []
    return [*sentences, f"For comparison: {', '.join(rest)}."]


def _reached(section: Section, method: str) -> str:
    cells = best_by_epsilon(section.of(method))
    parts = [
        f"{percent(cell.accuracy.mean)} at {_level(cell)}"
        for cell in spread_out(cells, _MOST_LEVELS)
    ]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    private = any(not cell.not_private for cell in cells)
    return f"{listed} with {method_name(method)}{'' if private else ' (not private)'}"


def _level(cell: Cell) -> str:
    return f"ε\u00a0=\u00a0{number_up(cell.epsilon)}"


def _robustness(section: Section) -> list[str]:
    best = best_by_epsilon(section.cells)
    for cell in reversed(best):
        for unit in sorted(cell.units):
            radius = cell.radii(unit)[len(cell.radii(unit)) // 2]
            value = cell.certified(unit, radius)
            by = f" with {method_name(cell.method)}" if len(section.methods) > 1 else ""
            if value is not None:
                return [
                    f"At {_level(cell)}{by}, {percent(value.mean)} of the"
                    f" {held_out(cell.results[0])} rows are classified rightly and provably stay"
                    f" so under every change of length at most {number(radius)}, measured in:"
                    f" {unit}."
                ]
    return []


def _price(section: Section, cost: Cost) -> str:
    all_runs, alone = cost.together, f"ε\u00a0=\u00a0{number_up(cost.alone)}"
    if all_runs.runs == 1:
        return f"The one private run costs {alone} at δ\u00a0=\u00a0{number(all_runs.delta)}."
    return (
        f"One run alone costs at most {alone}; all {all_runs.runs} private runs together cost"
        f" ε\u00a0=\u00a0{number_up(all_runs.epsilon)} at δ\u00a0=\u00a0{number(all_runs.delta)},"
        f" the price of having looked at all of them."
    )
