"""What a run and a sweep left behind, on a terminal."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lipdp.cli._output import cell, emit_table
from lipdp.cli._progress import duration
from lipdp.reports import not_private_reason
from lipdp.results import RunResult
from lipdp.results.lines import digits_up

if TYPE_CHECKING:
    from lipdp.sweep import Choosing, Progress, SweepResult, TrialRecord


_FILES = {
    "result.json": "all numbers",
    "model.keras": "the trained model",
    "report.html": "the report, for a browser",
    "history.csv": "one row an epoch",
    "config.toml": "what was asked for",
    "schema.toml": "how rows are encoded",
    "train.log": "what was said, with the time",
}


def write_summary(
    result: RunResult, output: Path, baseline: dict[str, float | None] | None
) -> None:
    """Writes the result, the baselines and where the files lie."""
    columns = ["measure", "accuracy", "AUROC", "remark"]
    emit_table(result.name, columns, _metrics(result, baseline))
    click.echo(
        f"\nepsilon {digits_up(result.spent.epsilon)} at delta {result.spent.delta:g} "
        f"({result.spent.accountant}, {result.spent.adjacency}), {result.spent.steps} steps"
    )
    reason = not_private_reason(result)
    if reason:
        click.echo(f"NOT PRIVATE: {reason}")
    click.echo("")
    found = [(str(output / name), what) for name, what in _FILES.items()]
    emit_table("Files", ["file", "content"], [f for f in found if Path(f[0]).exists()])


def _metrics(
    result: RunResult, baseline: dict[str, float | None] | None
) -> list[tuple[str, float | None, float | None, str]]:
    rows: list[tuple[str, float | None, float | None, str]] = [
        ("test", result.test.accuracy, result.test.auroc, f"{result.test.rows} held-out rows"),
        ("majority class", result.test.majority_accuracy, None, "without any training"),
    ]
    if baseline is not None:
        remark = "not private, shown only here, in no file"
        if baseline.get("rows", result.training_rows) != result.training_rows:
            remark += f"; of {baseline['rows']:.0f} training rows"
        rows.append(
            ("logistic regression", baseline.get("accuracy"), baseline.get("auroc"), remark)
        )
    certified = dict.fromkeys(
        (f"certified at {c.radius:g}", c.accuracy, c.auroc, c.unit) for c in result.certified
    )
    unknown = [("certified", None, None, result.uncertified)] if result.uncertified else []
    return [*rows, *certified, *unknown]


_SWEEP_FILES = {
    "sweep.json": "all numbers",
    "report.html": "privacy and accuracy of the finished runs, for a browser",
    "trials": "the runs",
    "logs": "what the processes wrote",
}


@contextmanager
def trial_hearer(silent: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Writes a line a trial; in a terminal a bar stays below them."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    if silent or not console.is_terminal:
        yield None if silent else _write_line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("trials", total=None)

        def hear(progress: Progress) -> None:
            bars.console.print(trial_line(progress), soft_wrap=True)
            bars.update(task, total=progress.total, completed=progress.ended)

        yield hear


def _write_line(progress: Progress) -> None:
    click.echo(trial_line(progress))


def trial_line(progress: Progress) -> str:
    """Number, state, value, settings and time left."""
    trial = progress.trial
    value = "" if trial.value is None else f" {trial.value:.4f}"
    settings = " ".join(f"{key}={_short(value)}" for key, value in trial.parameters.items())
    reason = f"  ({trial.reason})" if trial.reason else ""
    left = progress.total - progress.ended
    time_left = f"  {duration(progress.seconds_left)} left" if left > 0 else ""
    count = f"{progress.ended:>{len(str(progress.total))}}/{progress.total}"
    return f"{count}  trial {trial.number} {trial.state}{value}  {settings}{reason}{time_left}"


def write_sweep(result: SweepResult, output: Path) -> None:
    """Writes the trials, the chosen run and the cost of choosing it."""
    head = f"Trials, {result.metric} on the validation rows"
    columns = ["trial", "state", result.metric, *_keys(result)]
    click.echo("")
    emit_table(head, columns, [_row(trial, result) for trial in _by_value(result.trials)])
    if result.best is not None:
        click.echo(f"\nbest: trial {result.best.number}, in {output / 'trials' / result.best.run}")
        _write_test(result)
    if result.choosing is not None:
        _write_costs(result.choosing)
    click.echo("")
    found = [(str(output / name), what) for name, what in _SWEEP_FILES.items()]
    emit_table("Files", ["file", "content"], [f for f in found if Path(f[0]).exists()])


def _write_costs(cost: Choosing) -> None:
    """Paragraphs as points, in lines of at most 100 characters."""
    from lipdp.sweep import cost_notes

    click.echo("\nThe privacy cost of choosing:")
    for note in cost_notes(cost):
        click.echo(textwrap.fill(note, 100, initial_indent="  - ", subsequent_indent="    "))


def _write_test(result: SweepResult) -> None:
    best = result.best
    if best is None or best.test is None:
        click.echo("its folder is not on this machine, so that its test rows were not read")
        return
    auroc = "" if best.test.auroc is None else f", AUROC {best.test.auroc:.4f}"
    click.echo(
        f"on {best.test.rows} test rows, read for this run alone: accuracy "
        f"{best.test.accuracy:.4f}{auroc} (majority class {best.test.majority_accuracy:.4f})"
    )
    for one in best.certified:
        click.echo(f"certified at {one.radius:g}: accuracy {one.accuracy:.4f}")


def _by_value(trials: list[TrialRecord]) -> list[TrialRecord]:
    order = {"finished": 0, "pruned": 1, "running": 2, "failed": 3}
    return sorted(trials, key=lambda t: (order[t.state], -(t.value or 0.0), t.number))


def _keys(result: SweepResult) -> list[str]:
    return list(result.sweep["space"])


def _row(trial: TrialRecord, result: SweepResult) -> list[object]:
    settings = [_short(trial.parameters.get(key)) for key in _keys(result)]
    return [trial.number, trial.state, trial.value, *settings]


def _short(value: Any) -> str:
    return (
        cell(value) if isinstance(value, (int, float, str)) or value is None else json.dumps(value)
    )
