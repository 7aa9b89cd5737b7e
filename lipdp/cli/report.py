"""Write a report over several runs: privacy, accuracy, robustness and cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from lipdp.cli import _output
from lipdp.errors import InvalidValue

_COLUMNS = ["data", "epsilon", "method", "setting", "runs", "accuracy", "95 % interval", "remark"]


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
@click.option("--quiet", is_flag=True, help="Write nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Write the JSON of the report, nothing else.")
def command(
    *, runs: tuple[Path, ...], output: Path, overwrite: bool, quiet: bool, as_json: bool
) -> None:
    """Write a report over finished RUNS: folders that lipdp train wrote, or a folder of them.

    It shows means over seeds with intervals, the front of privacy and accuracy, certified accuracy
    over the radius, learning curves, and what the runs cost alone and together.

    Example: lipdp report runs/* -o report.html
    """
    from lipdp.reports import load_runs, notes_on_unseen, pareto_files, write_pareto_report

    files = pareto_files(output)
    _check_output(files, overwrite)
    loaded = load_runs(runs)
    notes = notes_on_unseen([run.folder for run in loaded])
    with _writing(output):
        write_pareto_report(loaded, output, notes)
    text = files[2].read_text(encoding="utf-8")
    if as_json:
        click.echo(text, nl=False)
    elif not quiet:
        _tell(json.loads(text)["sections"], notes, files)


def _tell(found: list[dict[str, Any]], notes: Sequence[str], files: Sequence[Path]) -> None:
    _output.emit_table("Means over seeds", _COLUMNS, [row for one in found for row in _rows(one)])
    click.echo("")
    for section in found:
        if section["privacy"]:
            click.echo(_price(section["title"], **section["privacy"]))
    shared = [data for data, count in Counter(one["data"] for one in found).items() if count > 1]
    for data in shared:
        click.echo(f"{data}: the parts above use rows of the same data, so that their costs add up")
    for note in notes:
        click.echo(note)
    click.echo("")
    told = ("the report, for a browser", "one row a run", "means, intervals, fronts, cost")
    _output.emit_table("Files", ["file", "content"], list(zip(map(str, files), told, strict=True)))


def _rows(section: dict[str, Any]) -> list[_output.Row]:
    return [
        (
            section["title"],
            _up(float(cell["epsilon"])),
            cell["method"],
            cell["setting"],
            len(cell["runs"]),
            round(cell["accuracy"]["mean"], 4),
            _interval(cell["accuracy"]),
            _remark(cell),
        )
        for cell in [*section["cells"], *section["references"]]
    ]


def _interval(accuracy: dict[str, Any]) -> str | None:
    from lipdp.reports.sections import Estimate

    found = Estimate(**accuracy).share_interval
    return None if found is None else f"{found[0]:.4f} to {found[1]:.4f}"


def _remark(cell: dict[str, Any]) -> str | None:
    private = not cell["not_private"] or cell["method"] == "none"
    said = [] if private else ["not private"]
    said += ["stopped early"] if cell["interrupted"] else []
    return ", ".join(said) or None


def _up(epsilon: float) -> float:
    """Rounded up to the digits that a table shows."""
    from lipdp.results.lines import digits_up

    return float(digits_up(epsilon))


def _price(title: str, alone: float, together: dict[str, Any], levels: object) -> str:
    at = f"at delta {together['delta']:g}"
    if together["runs"] == 1:
        return f"{title}: the one private run costs epsilon {_up(alone):.6g} {at}"
    return (
        f"{title}: one run alone costs at most epsilon {_up(alone):.6g}, all {together['runs']}"
        f" private runs together epsilon {_up(float(together['epsilon'])):.6g} {at}"
    )


@contextmanager
def _writing(output: Path) -> Iterator[None]:
    """Names the file that was asked for, not one beside it, where the disk refuses."""
    try:
        yield
    except OSError as error:
        raise InvalidValue(
            f"The report cannot be written ({error.strerror or error})",
            received=str(output),
            fix="Choose a folder that files can be written to, with -o",
        ) from error


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
