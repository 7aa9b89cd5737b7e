"""What a report says of its sections: names that tell them apart, and sentences of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from lipdp.reports.cost import Cost
from lipdp.reports.loading import LoadedRun
from lipdp.reports.page import (
    held_out,
    method_name,
    number,
    number_up,
    percent,
)
from lipdp.reports.sections import Cell, Section, part
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
    found = [*_utility(section, name), *_robust_accuracy(section)]
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


def _robust_accuracy(section: Section) -> list[str]:
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


#: A sweep writes it into the folder of the run that it chose.
_CLAIM_FILE = "guarantee.txt"
_TRIALS = "trials"


def names(found: Sequence[Section]) -> list[str]:
    """The data of each section, with what tells it from others of the same data and rows."""
    plain = [(one.data, _held_out(one)) for one in found]
    count = Counter(plain)
    return [
        f"{one.data} ({_details(one, found)})" if count[key] > 1 else one.data
        for key, one in zip(plain, found, strict=True)
    ]


def titles(found: Sequence[Section]) -> list[str]:
    """Names that say too whether the rows are validation rows; no two are equal."""
    texts = [
        f"{name}, validation rows" if _held_out(one) == "validation" else name
        for name, one in zip(names(found), found, strict=True)
    ]
    count = Counter(texts)
    return [
        f"{text}, part {texts[: i + 1].count(text)}" if count[text] > 1 else text
        for i, text in enumerate(texts)
    ]


def settings_trials(section: Section) -> dict[int, str]:
    """By setting, the numbers of its trials in a sweep, the chosen one marked; else empty."""
    found: dict[int, list[str]] = {}
    for cell in section.everything:
        for run in cell.runs:
            if run.folder.parent.name == _TRIALS and run.folder.name.isdecimal():
                found.setdefault(cell.setting, []).append(_trial(run))
    return {setting: ", ".join(trials) for setting, trials in found.items()}


def _trial(run: LoadedRun) -> str:
    chosen = " (chosen)" if (run.folder / _CLAIM_FILE).is_file() else ""
    return f"{int(run.folder.name)}{chosen}"


def _held_out(section: Section) -> str:
    return held_out(section.everything[0].results[0])


def _details(section: Section, found: Sequence[Section]) -> str:
    """What differs among the sections of this data and these rows."""
    same = [
        one for one in found if (one.data, _held_out(one)) == (section.data, _held_out(section))
    ]
    told = [detail for detail in _DETAILS if len({detail(one) for one in same}) > 1]
    return ", ".join(detail(section) for detail in told) or _promise(section)


def _promise(section: Section) -> str:
    if section.delta is None:
        return "without privacy"
    return f"δ = {number(section.delta)}, {neighbours(section)}"


def _all_rows(section: Section) -> str:
    first = section.everything[0].results[0]
    return f"{number(first.training_rows + first.test.rows)} rows"


def _target(section: Section) -> str:
    return f"target {part(section.everything[0].results[0], 'data').get('target')}"


_DETAILS: tuple[Callable[[Section], str], ...] = (_promise, _all_rows, _target)
