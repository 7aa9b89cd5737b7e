"""The report over several runs: privacy, utility, robustness and their price on one page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from lipdp.errors import InvalidValue
from lipdp.reports.cost import Cost, section_cost
from lipdp.reports.loading import LoadedRun
from lipdp.reports.page import (
    environment,
    held_out,
    meaning,
    method_name,
    statement_blocks,
)
from lipdp.reports.pareto_data import cell_row_interval, to_json, to_table
from lipdp.reports.pareto_figures import (
    front_figure,
    learning_figures,
    robustness_figure,
    shown_levels,
)
from lipdp.reports.run import not_private_reason
from lipdp.reports.sections import Cell, Section, sections
from lipdp.reports.selection import pareto_front, robust_pareto_front, spread_out
from lipdp.reports.words import names, neighbours, settings_trials, summary, titles

_MOST_MEANINGS = 6


def pareto_files(path: Path) -> tuple[Path, Path, Path]:
    """The files of a report: HTML, CSV and JSON.

    Raises:
        InvalidValue: If the path does not end with ``.html``.
    """
    if path.suffix.lower() != ".html":
        raise InvalidValue(
            "A report is an HTML file with a CSV and a JSON file beside it",
            received=str(path),
            fix="Let its name end with .html",
        )
    return path, path.with_suffix(".csv"), path.with_suffix(".json")


def write_pareto_report(runs: Sequence[LoadedRun], path: Path, notes: Sequence[str] = ()) -> None:
    """Writes a report over runs: a self-contained HTML file, and CSV and JSON of the same name.

    Guarantees:

    * Points are means over seeds; where one is picked, it is by the mean.
    * The front has steps: nothing is drawn between what was trained.
    * Runs without privacy are lines for comparison, at no epsilon.
    * Runs on different data, under different neighbours or at different delta are never compared,
      nor are radii of different units.
    * No number is exact from training rows.

    Args:
        runs: At least one.
        path: Ends with ``.html``; its folder must exist. Files of these names are replaced.
        notes: Paragraphs for the top of the page, such as what choosing among the runs cost.

    Raises:
        InvalidValue: If there are no runs, or the path has another ending.
        InvalidData: If the ledger of a run is broken.
    """
    page, table, data = pareto_files(path)
    if not runs:
        raise InvalidValue("A report needs at least one run", received=[])
    found = [(section, section_cost(section)) for section in sections(runs)]
    html = environment().get_template("pareto.html.j2").render(_context(found, runs), notes=notes)
    to_table(runs).to_csv(table, index=False)
    data.write_text(to_json(found), encoding="utf-8")
    page.write_text(html, encoding="utf-8")


def _context(
    found: Sequence[tuple[Section, Cost | None]], runs: Sequence[LoadedRun]
) -> dict[str, Any]:
    levels = sorted({cell.epsilon for section, _ in found for cell in section.cells})
    count = Counter(section.data for section, _ in found)
    parts = [section for section, _ in found]
    called = zip(found, names(parts), titles(parts), strict=True)
    return {
        "runs": _runs(runs),
        "sections": [
            {
                **_section(section, cost, f"s{i}"),
                "title": title,
                "summary": summary(section, cost, name),
                "related": count[section.data] > 1,
            }
            for i, ((section, cost), name, title) in enumerate(called, 1)
        ],
        "users": all(section.group for section, _ in found),
        "not_private": _not_private(runs),
        "references": any(section.references for section, _ in found),
        "meanings": _meanings(levels, max(run.result.spent.delta for run in runs)),
        "statements": _statements(runs),
        "version": max(run.result.versions.get("lipdp", "") for run in runs),
    }


def _section(section: Section, cost: Cost | None, name: str) -> dict[str, Any]:
    chosen = pareto_front(section.cells)
    return {
        "name": name,
        "section": section,
        "cost": cost,
        "neighbours": neighbours(section),
        "held_out": held_out(section.everything[0].results[0]),
        "strictest": _strictest(section),
        "loosest": chosen[-1] if chosen else None,
        "reference": max(section.references, key=lambda c: c.accuracy.mean, default=None),
        "rows": _rows(section),
        "row_interval": cell_row_interval(chosen[-1] if chosen else section.references[0]),
        "test_rows": section.everything[0].results[0].test.rows,
        "training_rows": section.everything[0].results[0].training_rows,
        "majority": section.everything[0].results[0].test.majority_accuracy,
        "front": front_figure(section, f"{name}-front"),
        "robustness": [_robustness(section, unit, name, i) for i, unit in enumerate(section.units)],
        "learning": learning_figures(section, f"{name}-learning"),
        "several_settings": any(section.settings.values()),
        "trials": settings_trials(section),
        "cut": _cut(section),
        "seconds": sum(one.seconds for cell in section.everything for one in cell.results),
    }


def _cut(section: Section) -> bool:
    """Whether an interval goes beyond where shares can lie."""
    found = [one for cell in section.everything for one in (cell.accuracy, cell.auroc)]
    for cell in section.everything:
        found += [cell.certified(unit, r) for unit in cell.units for r in cell.radii(unit)]
    return any(one is not None and one.is_cut for one in found)


def _strictest(section: Section) -> Cell | None:
    """The most accurate cell at the smallest epsilon."""
    lowest = [cell for cell in section.cells if cell.epsilon == section.cells[0].epsilon]
    return max(lowest, key=lambda cell: cell.accuracy.mean, default=None)


def _rows(section: Section) -> list[dict[str, Any]]:
    """The table by epsilon; a cell on the front of its method is marked."""
    best = [cell for method in section.methods for cell in pareto_front(section.of(method))]
    return [
        {
            "cell": cell,
            "method": method_name(cell.method, without_noise=math.isinf(cell.epsilon)),
            "best": cell in best,
        }
        for cell in section.everything
    ]


def _robustness(section: Section, unit: str, name: str, number: int) -> dict[str, Any]:
    radii = section.radii(unit)
    fronts = {radius: robust_pareto_front(section.cells, unit, radius) for radius in radii}
    rows = [
        {"cell": cell, "method": method_name(cell.method), "on": [cell in fronts[r] for r in radii]}
        for cell in section.cells
        if any(cell in chosen for chosen in fronts.values())
    ]
    return {
        "unit": unit,
        "radii": radii,
        "figure": robustness_figure(section, unit, f"{name}-robustness{number}"),
        "left_out": len(shown_levels(section)) < len({c.epsilon for c in section.cells}),
        "rows": rows,
    }


def _meanings(levels: Sequence[float], delta: float) -> list[dict[str, float]]:
    """What each of some epsilons means for one person."""
    return [{"epsilon": e, **meaning(e, delta)} for e in spread_out(levels, _MOST_MEANINGS)]


def _not_private(runs: Sequence[LoadedRun]) -> list[tuple[str, int]]:
    """Why private-looking runs protect nobody, with their number."""
    reasons = sorted(
        reason
        for run in runs
        if math.isfinite(run.result.spent.epsilon) and run.result.method != "none"
        if (reason := not_private_reason(run.result))
    )
    return [(reason, len(list(same))) for reason, same in groupby(reasons)]


def _runs(runs: Sequence[LoadedRun]) -> list[dict[str, Any]]:
    anchors = {text: number for number, text in enumerate(_texts(runs), start=1)}
    return [
        {
            "folder": str(run.folder),
            "result": run.result,
            "method": method_name(run.result.method),
            "not_private": not_private_reason(run.result),
            "statement": anchors[run.result.statement],
        }
        for run in runs
    ]


def _statements(runs: Sequence[LoadedRun]) -> list[dict[str, Any]]:
    """Each different statement once, with the runs that make it."""
    return [
        {
            "number": number,
            "blocks": statement_blocks(text),
            "runs": [run.result.name for run in runs if run.result.statement == text],
        }
        for number, text in enumerate(_texts(runs), start=1)
    ]


def _texts(runs: Sequence[LoadedRun]) -> list[str]:
    return list(dict.fromkeys(run.result.statement for run in runs))
