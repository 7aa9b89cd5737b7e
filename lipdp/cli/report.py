"""Write a report over several runs: privacy, accuracy, robustness and cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from lipdp.cli import _output
from lipdp.errors import InvalidValue

_COLUMNS = ["data", "epsilon", "method", "setting", "runs", "accuracy", "+-"]


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.html",
    default="report.html",
    show_default=True,
    help="The report; a CSV and a JSON file of the same name are written beside it.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that are already there.")
@click.option("--json", "as_json", is_flag=True, help="Write the JSON of the report, nothing else.")
def command(runs: tuple[Path, ...], output: Path, overwrite: bool, as_json: bool) -> None:
    """Write a report over finished RUNS: folders that lipdp train wrote, or a folder of them.

    It shows means over seeds with intervals, the front of privacy and accuracy, certified accuracy
    over the radius, learning curves, and what the runs cost alone and together.

    Example: lipdp report runs/* -o report.html
    """
    from lipdp.reports import load_runs, pareto_files, write_pareto_report

    files = pareto_files(output)
    _check_output(files, overwrite)
    write_pareto_report(load_runs(runs), output)
    text = files[2].read_text(encoding="utf-8")
    if as_json:
        click.echo(text, nl=False)
        return
    found = json.loads(text)["sections"]
    _output.emit_table("Means over seeds", _COLUMNS, [row for one in found for row in _rows(one)])
    click.echo("")
    for section in found:
        if section["privacy"]:
            click.echo(_price(section["data"], **section["privacy"]))
    click.echo("")
    told = ("the report, for a browser", "one row a run", "means, intervals, fronts, cost")
    _output.emit_table("Files", ["file", "content"], list(zip(map(str, files), told, strict=True)))


def _rows(section: dict[str, Any]) -> list[_output.Row]:
    return [
        (
            section["data"],
            float(cell["epsilon"]),
            cell["method"],
            cell["setting"],
            len(cell["runs"]),
            round(cell["accuracy"]["mean"], 4),
            cell["accuracy"]["half_width"] and round(cell["accuracy"]["half_width"], 4),
        )
        for cell in [*section["cells"], *section["references"]]
    ]


def _price(data: str, alone: float, together: dict[str, Any], levels: object) -> str:
    return (
        f"{data}: one run alone costs at most epsilon {alone:.6g}, all {together['runs']} private"
        f" runs together epsilon {float(together['epsilon']):.6g} at delta {together['delta']:g}"
    )


def _check_output(files: Sequence[Path], overwrite: bool) -> None:
    if not files[0].parent.is_dir():
        raise InvalidValue(
            "The folder of the report does not exist",
            received=str(files[0]),
            fix="Create the folder, or choose another one",
        )
    present = [str(file) for file in files if file.exists()]
    if present and not overwrite:
        raise InvalidValue(
            "The output already exists",
            received=present,
            fix="Choose another file with -o, or add --overwrite",
        )
