"""Runs that are compared: which belong together, and what repeated runs say about the mean."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lipdp.reports.loading import LoadedRun
from lipdp.reports.page import plain
from lipdp.reports.run import not_private_reason
from lipdp.results import RunResult

#: Of all intervals of a report.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """The mean over runs.

    Attributes:
        mean: Of the values.
        half_width: Of the 95 % interval around it (Student's t); None for one run.
        count: Number of runs.
    """

    mean: float
    half_width: float | None
    count: int

    @property
    def share_interval(self) -> tuple[float, float] | None:
        """The part of the interval where shares can lie, within 0 and 1; None for one run."""
        if self.half_width is None:
            return None
        low, high = self.mean - self.half_width, self.mean + self.half_width
        return max(low, 0.0), min(high, 1.0)

    @property
    def is_cut(self) -> bool:
        """Whether the interval goes beyond where shares can lie."""
        whole = self.mean, self.half_width or 0.0
        return whole[0] - whole[1] < 0 or whole[0] + whole[1] > 1


def estimate(values: Sequence[float]) -> Estimate:
    """Mean with its Student-t interval, for independent runs of roughly normal results.

    Args:
        values: At least one.
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, None, count)
    from scipy.stats import t

    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    quantile = float(t.ppf(0.5 + CONFIDENCE / 2, count - 1))
    return Estimate(mean, quantile * math.sqrt(variance / count), count)


def row_interval(accuracy: float, rows: int) -> tuple[float, float]:
    """The 95 % interval (Wilson) of an accuracy measured on so many independent test rows."""
    from scipy.stats import norm

    z = float(norm.ppf(0.5 + CONFIDENCE / 2))
    share = z * z / rows
    center = (accuracy + share / 2) / (1 + share)
    spread = z / (1 + share) * math.sqrt(accuracy * (1 - accuracy) / rows + share / (4 * rows))
    return center - spread, center + spread


@dataclass(frozen=True, eq=False)
class Cell:
    """Runs that differ in nothing but their seeds.

    Attributes:
        setting: Number of the setting in its section, from 1.
        method: How they were trained.
        epsilon: What each of them guarantees; infinite without privacy.
        not_private: Why they protect nobody; empty if they do.
        runs: At least one.
    """

    setting: int
    method: str
    epsilon: float
    not_private: str
    runs: tuple[LoadedRun, ...]

    @property
    def is_reference(self) -> bool:
        """Whether it was trained without privacy, for comparison."""
        return self.method == "none" or math.isinf(self.epsilon)

    @property
    def interrupted(self) -> bool:
        """Whether a run was stopped before its end."""
        return any(one.interrupted for one in self.results)

    @property
    def results(self) -> list[RunResult]:
        """The results of the runs."""
        return [run.result for run in self.runs]

    @cached_property
    def accuracy(self) -> Estimate:
        """Accuracy on the test rows."""
        return estimate([one.test.accuracy for one in self.results])

    @cached_property
    def auroc(self) -> Estimate | None:
        """Over the runs that have one."""
        return _estimate(one.test.auroc for one in self.results)

    @property
    def seconds(self) -> float:
        """Mean time of a run."""
        return estimate([one.seconds for one in self.results]).mean

    @property
    def memory(self) -> int | None:
        """Largest peak of a run, in bytes; None if no run measured it."""
        return max(filter(None, (one.peak_memory_bytes for one in self.results)), default=None)

    def certified(self, unit: str, radius: float) -> Estimate | None:
        """Certified accuracy over the runs that certified at this radius."""
        found = ({(c.unit, c.radius): c.accuracy for c in one.certified} for one in self.results)
        return _estimate(one.get((unit, radius)) for one in found)

    def radii(self, unit: str) -> list[float]:
        """Radii of this unit, sorted."""
        return sorted({c.radius for r in self.results for c in r.certified if c.unit == unit})

    @property
    def units(self) -> set[str]:
        """Units of its certificates."""
        return {c.unit for one in self.results for c in one.certified}


@dataclass(frozen=True, eq=False)
class Section:
    """Runs whose numbers may be compared: same data, same neighbours, same delta.

    Attributes:
        data: Name of the data.
        group: Column of the users that are protected; empty where it is single rows.
        delta: Of every private run; None if there is none.
        adjacency: How neighbouring data sets differ.
        cells: Private ones, by epsilon.
        references: Those without privacy.
        settings: By number, the keys in which settings differ and their values.
    """

    data: str
    group: str
    delta: float | None
    adjacency: str
    cells: tuple[Cell, ...]
    references: tuple[Cell, ...]
    settings: dict[int, dict[str, str]]

    @property
    def everything(self) -> tuple[Cell, ...]:
        """Private cells and references."""
        return (*self.cells, *self.references)

    @property
    def methods(self) -> list[str]:
        """Methods of the private cells, sorted."""
        return sorted({cell.method for cell in self.cells})

    def of(self, method: str) -> list[Cell]:
        """The private cells of a method."""
        return [cell for cell in self.cells if cell.method == method]

    @property
    def units(self) -> list[str]:
        """Units of all certificates; radii of different units are never compared."""
        return sorted(set().union(*(cell.units for cell in self.everything)))

    def radii(self, unit: str) -> list[float]:
        """Radii of this unit, sorted."""
        return sorted({radius for cell in self.everything for radius in cell.radii(unit)})


def _estimate(values: Iterable[float | None]) -> Estimate | None:
    known = [value for value in values if value is not None]
    return estimate(known) if known else None


#: Differ between runs of one setting: seeds, where files lie, and the budget that a series goes
#: through. The method stands in the result.
_NOT_SETTING = {
    ("training", "initial_seed"),
    ("training", "method"),
    ("training", "tensorboard"),
    ("data", "split_seed"),
    ("data", "dir"),
    ("privacy", "seed"),
    ("privacy", "epsilon"),
    ("privacy", "noise_multiplier"),
}

#: What early versions do not state, because there was nothing else.
_NO_FEATURES = ("features", "name", "none")


def sections(runs: Sequence[LoadedRun]) -> list[Section]:
    """Groups runs; those without privacy join every section of their data."""
    by_data: dict[tuple[Any, ...], list[LoadedRun]] = {}
    for run in runs:
        by_data.setdefault(_identity(run.result), []).append(run)
    found = []
    for members in by_data.values():
        private = [run for run in members if not _without_privacy(run.result)]
        references = [run for run in members if _without_privacy(run.result)]
        promises = sorted({_promise(run.result) for run in private})
        for promise in promises:
            same = [run for run in private if _promise(run.result) == promise]
            found.append(_section(same, references))
        if not promises:
            found.append(_section([], references))
    return sorted(found, key=lambda s: (s.data, s.adjacency, s.delta or 0.0))


def _section(private: list[LoadedRun], references: list[LoadedRun]) -> Section:
    both = [*private, *references]
    first = both[0].result
    keys = list(dict.fromkeys(_setting(run.result) for run in both))
    numbers = {key: number for number, key in enumerate(keys, start=1)}
    cells = sorted(
        _cells(private, numbers), key=lambda c: (c.epsilon, c.method, c.setting, c.not_private)
    )
    data = part(first, "data")
    return Section(
        data=_data_name(data),
        group=str(data.get("group") or ""),
        delta=first.spent.delta if private else None,
        adjacency=first.spent.adjacency,
        cells=tuple(cells),
        references=tuple(_cells(references, numbers)),
        settings=_differences(keys),
    )


def _cells(runs: list[LoadedRun], numbers: dict[str, int]) -> list[Cell]:
    groups: dict[tuple[Any, ...], list[LoadedRun]] = {}
    for run in runs:
        result = run.result
        why = not_private_reason(result)
        key = (_setting(result), result.method, *_budget(result), result.interrupted, why)
        groups.setdefault(key, []).append(run)
    return [
        Cell(
            setting=numbers[key[0]],
            method=key[1],
            epsilon=max(_level(run.result) for run in members),
            not_private=key[-1],
            runs=tuple(members),
        )
        for key, members in groups.items()
    ]


def part(result: RunResult, name: str) -> dict[str, Any]:
    """A section of the configuration; empty if the run has none."""
    found = result.config.get(name)
    return found if isinstance(found, dict) else {}


def _identity(result: RunResult) -> tuple[Any, ...]:
    """Tells data apart: by name, by what is protected, and by the number of rows.

    With a validation part the test rows are left unread, so that accuracies do not compare. Users
    lose rows beyond their number at random, so there the rows are not counted.
    """
    data = part(result, "data")
    keys = ("name", "path", "labels", "target", "group", "max_examples_per_user", "limit_rows")
    validated = data.get("validation_fraction")
    rows = 0 if data.get("group") else result.training_rows + result.test.rows
    return (*(str(data.get(key)) for key in keys), str(validated), rows)


def _data_name(data: dict[str, Any]) -> str:
    return str(data.get("name") or Path(str(data.get("path") or "data")).name)


def _without_privacy(result: RunResult) -> bool:
    return result.method == "none" or math.isinf(result.spent.epsilon)


def _promise(result: RunResult) -> tuple[str, float]:
    return result.spent.adjacency, result.spent.delta


def _budget(result: RunResult) -> tuple[Any, ...]:
    """What was asked for; without privacy the budget says nothing."""
    privacy = part(result, "privacy")
    if _without_privacy(result):
        return None, None
    asked = privacy.get("epsilon"), privacy.get("noise_multiplier")
    return asked if any(asked) else (result.spent.epsilon, None)


def _level(result: RunResult) -> float:
    """The budget where noise was calibrated to it and used up; otherwise what was spent."""
    if _without_privacy(result):
        return math.inf
    budget, noise = _budget(result)
    spent = result.spent.epsilon
    if result.interrupted or noise is not None or budget is None:
        return spent
    return max(float(budget), spent)


def _setting(result: RunResult) -> str:
    """The configuration without seeds, method and budget, as text."""
    kept = {key: value for key, value in _flat(result.config) if key not in _NOT_SETTING}
    return json.dumps({".".join(key): value for key, value in kept.items()}, sort_keys=True)


def _flat(config: dict[str, Any]) -> Iterable[tuple[tuple[str, ...], Any]]:
    for section, body in config.items():
        if section == "sweep":
            continue
        for key, value in (body if isinstance(body, dict) else {"": body}).items():
            if value is not None and (section, key, value) != _NO_FEATURES:
                yield ((section, str(key)) if key else (section,)), value


def _differences(keys: Sequence[str]) -> dict[int, dict[str, str]]:
    """For each setting the keys that are not the same in all, with their values as JSON."""
    found = [json.loads(key) for key in keys]
    names = sorted(set().union(*found))
    texts = [{name: _text(one.get(name)) for name in names} for one in found]
    varied = [name for name in names if len({text[name] for text in texts}) > 1]
    return {
        number: {name: text[name] for name in varied} for number, text in enumerate(texts, start=1)
    }


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else plain(value)
