"""The numbers of a report over several runs, for programs: JSON and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lipdp.reports.cost import Cost
from lipdp.reports.loading import LoadedRun
from lipdp.reports.run import not_private_reason
from lipdp.reports.sections import CONFIDENCE, Cell, Estimate, Section, part, row_interval
from lipdp.reports.selection import pareto_front, robust_pareto_front
from lipdp.reports.words import titles
from lipdp.results.run import strict_json

if TYPE_CHECKING:
    import pandas as pd


def to_json(found: Sequence[tuple[Section, Cost | None]]) -> str:
    """All sections as strict JSON; infinity is the text "inf"."""
    called = titles([section for section, _ in found])
    count = Counter(section.data for section, _ in found)
    parts = [
        {"title": title, **_section(section, cost, shared=count[section.data] > 1)}
        for title, (section, cost) in zip(called, found, strict=True)
    ]
    whole = {"confidence": CONFIDENCE, "sections": parts}
    return strict_json(whole) + "\n"


def to_table(runs: Sequence[LoadedRun]) -> pd.DataFrame:
    """One row a run; the columns of radii name the radius, ``certified_unit`` its unit."""
    import pandas as pd

    table = pd.DataFrame([_run(run) for run in runs])
    return table.assign(interrupted=[run.result.interrupted for run in runs])


def _section(section: Section, cost: Cost | None, *, shared: bool) -> dict[str, Any]:
    best = {id(cell) for method in section.methods for cell in pareto_front(section.of(method))}
    return {
        "data": section.data,
        "group": section.group,
        "delta": section.delta,
        "adjacency": section.adjacency,
        "settings": {str(number): values for number, values in section.settings.items()},
        "cells": [{**_cell(cell), "on_front": id(cell) in best} for cell in section.cells],
        "references": [_cell(cell) for cell in section.references],
        "robust_fronts": _robust_fronts(section),
        "privacy": None if cost is None else asdict(cost),
        "other_sections_on_these_data": shared,
    }


def _robust_fronts(section: Section) -> list[dict[str, Any]]:
    positions = {id(cell): i for i, cell in enumerate(section.cells)}
    return [
        {
            "unit": unit,
            "radius": radius,
            "cells": [positions[id(c)] for c in robust_pareto_front(section.cells, unit, radius)],
        }
        for unit in section.units
        for radius in section.radii(unit)
    ]


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "setting": cell.setting,
        "method": cell.method,
        "epsilon": cell.epsilon,
        "not_private": cell.not_private,
        "interrupted": cell.interrupted,
        "accuracy": asdict(cell.accuracy),
        "accuracy_interval_by_test_rows": cell_row_interval(cell),
        "auroc": _maybe(cell.auroc),
        "certified": [
            {"unit": unit, "radius": r, "accuracy": _maybe(cell.certified(unit, r))}
            for unit in sorted(cell.units)
            for r in cell.radii(unit)
        ],
        "seconds": cell.seconds,
        "peak_memory_bytes": cell.memory,
        "runs": [str(run.folder) for run in cell.runs],
    }


def cell_row_interval(cell: Cell) -> tuple[float, float]:
    """Where the accuracy may lie because a test set is a sample; by the smallest test set."""
    return row_interval(cell.accuracy.mean, min(one.test.rows for one in cell.results))


def _maybe(value: Estimate | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


def _run(run: LoadedRun) -> dict[str, Any]:
    result = run.result
    spent, test = result.spent, result.test
    return {
        "folder": str(run.folder),
        "name": result.name,
        "data": part(result, "data").get("name") or part(result, "data").get("path"),
        "method": result.method,
        "budget": part(result, "privacy").get("epsilon"),
        "epsilon": spent.epsilon,
        "delta": spent.delta,
        "adjacency": spent.adjacency,
        "not_private": not_private_reason(result),
        "initial_seed": part(result, "training").get("initial_seed"),
        "split_seed": part(result, "data").get("split_seed"),
        "steps": spent.steps,
        "training_rows": result.training_rows,
        "test_rows": test.rows,
        "accuracy": test.accuracy,
        "auroc": test.auroc,
        "majority_accuracy": test.majority_accuracy,
        "seconds": result.seconds,
        "peak_memory_bytes": result.peak_memory_bytes,
        "certified_unit": "; ".join(sorted({c.unit for c in result.certified})),
        **{f"certified_accuracy_at_{c.radius:g}": c.accuracy for c in result.certified},
    }
