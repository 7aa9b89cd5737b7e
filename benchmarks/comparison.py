"""The three methods of ``lipdp compare`` on a configuration, with what each run reached.

Run: python -m benchmarks.comparison configs/adult.toml --epsilons 1 3 8 --seeds 3
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pandas as pd

from benchmarks.record import RESULTS, markdown, versions, write

PACKAGES = ("lipdp", "tensorflow", "tensorflow-privacy", "keras", "numpy", "dp-accounting")


def summary(cells: Sequence[Mapping[str, Any]]) -> str:
    """Markdown of the table that ``lipdp compare --json`` writes."""
    names = list(cells[0])
    rows = [[_text(name, cell[name]) for name in names] for cell in cells]
    return markdown([name.replace("peak_memory_bytes", "MB") for name in names], rows)


def _text(name: str, value: Any) -> Any:
    """A mean with its interval as text, bytes in MB; anything else as it is."""
    if name == "peak_memory_bytes":
        return round(value / 1e6)
    if not isinstance(value, Mapping):
        return value
    low_high = value["interval"]
    interval = "" if low_high is None else " ({:.4f}-{:.4f})".format(*low_high)
    return f"{value['mean']:.4f}{interval}"


def told_of(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """What the report's table says of each run, by the name of its folder."""
    rows = json.loads(runs.drop(columns="name").to_json(orient="records"))
    return {Path(row.pop("folder")).name: row for row in rows}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--folder", type=click.Path(path_type=Path), help="Keeps the runs there.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(config: Path, folder: Path | None, results: Path, options: tuple[str, ...]) -> None:
    """Writes comparison_CONFIG.json and .md; OPTIONS go to ``lipdp compare``."""
    folder = folder or Path("runs") / f"comparison-{config.stem}"
    told = [sys.executable, "-m", "lipdp", "compare", str(config), *options, "-o", str(folder)]
    subprocess.run(told, check=True)
    # Nothing is trained again: the same command finds all runs finished.
    again = subprocess.run([*told, "--json"], check=True, capture_output=True, text=True)
    write(
        f"comparison_{config.stem}",
        told_of(pd.read_csv(folder / "compare.csv")),
        summary(json.loads(again.stdout)),
        command=shlex.join(["lipdp", "compare", str(config), *options]),
        packages=versions(PACKAGES),
        folder=results,
        means=json.loads(again.stdout),
    )


if __name__ == "__main__":
    main()
