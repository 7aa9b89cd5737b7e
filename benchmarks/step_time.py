"""Time and memory of a private step over a plain step of the same widths, and of what is between.

Run: python -m benchmarks.step_time --net mlp --batch 1024 --batch 8192
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import clock as clocks
from benchmarks.cells import BATCHES, run_cells, steps_of
from benchmarks.clock import Clock
from benchmarks.environments import interpreter
from benchmarks.race import Contender
from benchmarks.record import RESULTS, versions

WORKER = "benchmarks.workers.keras_steps"
#: Activation and pooling of the constrained networks; an MLP has no pooling.
STYLES = {
    "mlp": (("relu", ""), ("max_min", ""), ("group_sort", "")),
    "cnn": (("relu", "max"), ("max_min", "max"), ("max_min", "l2")),
}


def contenders(
    net: str, batch: int, steps: int, backend: str, python: str = sys.executable
) -> dict[str, Contender]:
    """The plain network, and for each style the constrained one without and with privacy."""
    cell = {"net": net, "batch": batch, "steps": steps}
    variables = {"KERAS_BACKEND": backend}
    found = {"plain": Contender(WORKER, {**cell, "kind": "plain"}, python, variables)}
    for activation, pooling in STYLES[net]:
        for kind in ("lipschitz", "private"):
            told = {**cell, "kind": kind, "activation": activation, "pooling": pooling}
            name = " ".join(part for part in (kind, activation, pooling) if part)
            found[name] = Contender(WORKER, told, python, variables)
    return found


def run(
    net: str,
    backend: str,
    batches: Sequence[int],
    turns: int,
    environments: Path | None = None,
    *,
    clock: Clock | None = None,
    folder: Path = RESULTS,
) -> Path:
    """Lets all contenders take turns, and writes step_time_NET_BACKEND.

    Args:
        net: A key of ``STYLES``.
        backend: Of Keras.
        batches: Batch sizes, the most important one first.
        turns: Turns of each contender.
        environments: Folder of environments, where that of another backend is made if need be;
            None for the running interpreter.
        clock: When no further batch size may begin.
        folder: Where results are written.

    Returns:
        The JSON file.
    """
    python = sys.executable if environments is None else interpreter(backend, environments)
    return run_cells(
        f"step_time_{net}_{backend}",
        lambda batch: contenders(net, batch, steps_of(net, batch), backend, python),
        batches,
        turns,
        command=f"python -m benchmarks.step_time --net {net} --backend {backend} --turns {turns}",
        packages=versions(python=python),
        clock=clock,
        folder=folder,
    )


def backend_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--backend``, ``--turns`` and ``--environments`` to a part."""
    for option in (
        click.option(
            "--environments",
            type=click.Path(file_okay=False, path_type=Path),
            help="Folder with an environment of the backend, made on demand; the running one by"
            " default.",
        ),
        click.option("--turns", default=5, show_default=True, help="Turns of each contender."),
        click.option("--backend", default="tensorflow", show_default=True),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--net", type=click.Choice(list(STYLES)), default="mlp", show_default=True)
@click.option("--batch", "batches", type=int, multiple=True, help="Repeatable; all by default.")
@backend_options
@clocks.options
def main(
    net: str,
    batches: tuple[int, ...],
    backend: str,
    turns: int,
    environments: Path | None,
    results: Path,
    seconds: float,
    quick: bool,
) -> None:
    """Lets all contenders take turns, and writes step_time_NET_BACKEND."""
    chosen = batches or ((64,) if quick else BATCHES[net])
    turns = 1 if quick else turns
    run(net, backend, chosen, turns, environments, clock=Clock(seconds), folder=results)


if __name__ == "__main__":
    main()
