"""The table at the end of a training."""

from __future__ import annotations

from pathlib import Path

import click

from lipdp.cli._output import emit_table
from lipdp.reports import not_private_reason
from lipdp.results import RunResult
from lipdp.results.lines import digits_up

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
