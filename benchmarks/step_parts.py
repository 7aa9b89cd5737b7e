"""What the parts of a private step cost: the step without each of them, and without all.

Run: python -m benchmarks.step_parts
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchmarks import clock as clocks
from benchmarks.cells import run_cells, steps_of
from benchmarks.clock import Clock
from benchmarks.environments import interpreter
from benchmarks.race import Contender
from benchmarks.record import versions
from benchmarks.step_time import WORKER, backend_options

_LEFT_OUT = "benchmarks.workers.parts_left_out"
_NOISE = ("drawing noise", "bringing noise", "adding noise")
_OTHERS = ("ball of inputs", "projection", "new batches")
#: Names of what is left out; to bring noise that nobody adds is not to bring it.
WITHOUT = {
    "without drawing noise": _NOISE[:1],
    "without noise": _NOISE,
    **{f"without {part}": (part,) for part in _OTHERS},
    "without all of these": (*_NOISE, *_OTHERS),
}
#: Where a step is short, its parts show.
_BATCHES = (1024,)


def contenders(batch: int, steps: int, backend: str, python: str) -> dict[str, Contender]:
    """The plain MLP, the private one with ReLU, and that one without parts."""
    cell = {"net": "mlp", "batch": batch, "steps": steps}
    private = {**cell, "kind": "private", "activation": "relu", "pooling": ""}
    told = {
        "plain": (WORKER, {**cell, "kind": "plain"}),
        "private": (WORKER, private),
        **{n: (_LEFT_OUT, {**private, "without": parts}) for n, parts in WITHOUT.items()},
    }
    variables = {"KERAS_BACKEND": backend}
    return {name: Contender(*one, python, variables) for name, one in told.items()}


@click.command()
@backend_options
@clocks.options
def main(
    backend: str,
    turns: int,
    environments: Path | None,
    results: Path,
    seconds: float,
    quick: bool,
) -> None:
    """Lets all of them take turns, and writes step_parts_BACKEND."""
    python = sys.executable if environments is None else interpreter(backend, environments)
    run_cells(
        f"step_parts_{backend}",
        lambda batch: contenders(batch, steps_of("mlp", batch), backend, python),
        (64,) if quick else _BATCHES,
        1 if quick else turns,
        command=f"python -m benchmarks.step_parts --backend {backend} --turns {turns}",
        packages=versions(python=python),
        clock=Clock(seconds),
        folder=results,
    )


if __name__ == "__main__":
    main()
