"""Runs that are compared: cells of equal setting and budget, sections of equal data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from lipdp.reports.estimates import Estimate, estimate
from lipdp.reports.loading import LoadedRun
from lipdp.results import RunResult


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
        """Of the test rows."""
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
        """Of the private cells, sorted."""
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
