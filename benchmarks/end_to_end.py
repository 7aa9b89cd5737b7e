"""``lipdp train`` from start to end, against the same training without privacy.

Both are commands of their own, in turn; memory is the most that the process held.

Run: python -m benchmarks.end_to_end --data-dir FOLDER
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import clock as clocks
from benchmarks.clock import Clock
from benchmarks.race import ROOT
from benchmarks.record import NO_TIME, markdown, measured_before, today, versions, write

#: Configuration and epochs of each training; the packaged default is Adult.
TRAININGS: Mapping[str, tuple[str | None, int]] = {
    "adult": (None, 10),
    "mnist": ("configs/mnist-certified.toml", 6),
}
METHODS = ("clipless", "none")
HEADS = [
    "training",
    "private: s",
    "without: s",
    "time over it",
    "private: MB",
    "without: MB",
    "memory over it",
]


def command(name: str, method: str, epochs: int, output: Path, data: Path | None) -> list[str]:
    """One training."""
    config = TRAININGS[name][0]
    return [
        *(sys.executable, "-m", "lipdp", "train"),
        *([str(ROOT / config)] if config else []),
        *("--method", method, "--set", f"training.epochs={epochs}"),
        *("--output", str(output), "--quiet"),
        *(["--data-dir", str(data)] if data and config else []),
    ]


def one_run(told: Sequence[str]) -> dict[str, float]:
    """Seconds and MB of a command.

    Raises:
        RuntimeError: If it failed, with what it said.
    """
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile("w+") as said:
        start = time.perf_counter()
        process = subprocess.Popen(told, stderr=said, stdout=subprocess.DEVNULL, env=variables)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if status:
            raise RuntimeError(said.read().strip()[-300:] or f"exit code {process.returncode}")
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss / 1024}


def measured(name: str, epochs: int, turns: int, data: Path | None, clock: Clock) -> dict[str, Any]:
    """Both methods in turn; at least one turn, and no further one without time for it."""
    found: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    start = clock.left
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns):
            if turn and clock.left < (start - clock.left) / turn:
                break
            for method in METHODS:
                output = Path(folder) / f"{method}-{turn}"
                found[method].append(one_run(command(name, method, epochs, output, data)))
    return summary(found) | {"epochs": epochs}


def summary(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Medians, and medians of the ratios within a turn."""
    private, plain = (found[method] for method in METHODS)
    medians = {
        f"{method}_{kind}": statistics.median(one[kind] for one in found[method])
        for method in METHODS
        for kind in ("wall", "cpu", "peak")
    }
    ratios = {
        f"{kind}_ratio": statistics.median(
            a[kind] / b[kind] for a, b in zip(private, plain, strict=True)
        )
        for kind in ("wall", "cpu", "peak")
    }
    return {**medians, **ratios, "turns": len(private)}


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown; a failed training with its reason."""
    kinds = ("clipless_wall", "none_wall", "wall_ratio", "clipless_peak", "none_peak", "peak_ratio")
    rows = [
        [name if "skipped" not in cell else f"{name}: {cell['skipped']}", *map(cell.get, kinds)]
        for name, cell in cells.items()
    ]
    return markdown(HEADS, rows)


@click.command()
@click.option("--turns", default=3, show_default=True)
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with mnist.npz, so that it is not downloaded.",
)
@clocks.options
def main(turns: int, data_dir: Path | None, results: Path, seconds: float, quick: bool) -> None:
    """Writes end_to_end.json and end_to_end.md."""
    clock = Clock(seconds)
    packages = versions()
    cells, days = measured_before(results / "end_to_end.json", packages)
    for number, (name, (_, epochs)) in enumerate(list(TRAININGS.items())[: 1 if quick else None]):
        share = Clock(clock.left / (len(TRAININGS) - number))
        cells.setdefault(name, NO_TIME)
        if clock.left > 0.0:
            days[name] = today()
            cells[name] = _tried(
                name, 1 if quick else epochs, 1 if quick else turns, data_dir, share
            )
        click.echo(f"{name}: {json.dumps(cells[name])}")
        write(
            "end_to_end",
            cells,
            table(cells),
            command=f"python -m benchmarks.end_to_end --turns {turns}",
            packages=packages,
            folder=results,
            measured=days,
        )


def _tried(name: str, epochs: int, turns: int, data: Path | None, clock: Clock) -> dict[str, Any]:
    try:
        return measured(name, epochs, turns, data, clock)
    except RuntimeError as error:
        return {"skipped": " ".join(str(error).split())}


if __name__ == "__main__":
    main()
