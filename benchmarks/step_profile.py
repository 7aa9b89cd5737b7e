"""Which operations a step's time goes to, by TensorFlow's profiler.

Run: python -m benchmarks.step_profile --net cnn
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks import clock as clocks
from benchmarks.clock import Clock
from benchmarks.record import markdown, versions, write


@dataclass(frozen=True)
class Profile:
    """What is profiled side by side.

    Attributes:
        net: As in a cell.
        batch: Rows of a step.
        steps: Of an epoch.
        columns: By name, kind, activation and pooling.
    """

    net: str
    batch: int
    steps: int
    columns: Mapping[str, tuple[str, str, str]]


PROFILES = {
    "mlp": Profile(
        "mlp",
        1024,
        60,
        {"lipschitz": ("lipschitz", "relu", ""), "private": ("private", "relu", "")},
    ),
    "mlp-sorted": Profile(
        "mlp",
        8192,
        8,
        {f"private {a}": ("private", a, "") for a in ("relu", "max_min", "group_sort")},
    ),
    "cnn": Profile(
        "cnn",
        1024,
        12,
        {
            "plain": ("plain", "", ""),
            "private relu max": ("private", "relu", "max"),
            "private max_min max": ("private", "max_min", "max"),
            "private max_min l2": ("private", "max_min", "l2"),
        },
    ),
}
_MOST_ROWS = 14
#: The end of "NAME:KIND"; two colons stand in what contains operations. Which of the kinds of one
#: operation TensorFlow takes, "MatMul" or "_MklMatMul", depends on the processor.
_OPERATION = re.compile(r"[^:]:_?(?:Mkl)?(?:Native)?([A-Za-z]\w*)$")


def by_operation(events: Sequence[tuple[str, float]], steps: int) -> dict[str, float]:
    """Milliseconds of a step for each kind of operation.

    Args:
        events: Names as the profiler writes them, "NAME:KIND" for an operation, and milliseconds;
            other names stand for what contains operations, and are left out.
        steps: Steps that they were seen in.
    """
    found: dict[str, float] = defaultdict(float)
    for name, milliseconds in events:
        operation = _OPERATION.search(name)
        if operation:
            found[operation[1]] += milliseconds / steps
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """The operations that take longest, side by side."""
    kinds = {name: cell["operations"] for name, cell in cells.items()}
    total = {name: sum(found.values()) for name, found in kinds.items()}
    every = {op for found in kinds.values() for op in found}
    order = sorted(every, key=lambda op: -max(found.get(op, 0.0) for found in kinds.values()))
    rows = [[op, *(found.get(op) for found in kinds.values())] for op in order[:_MOST_ROWS]]
    return markdown(["ms of a step", *kinds], [["all operations", *total.values()], *rows])


def profiled(cell: Mapping[str, Any], batch: int, steps: int) -> dict[str, Any]:
    """Profiles the fourth epoch of a training."""
    import keras
    import numpy as np
    import tensorflow as tf

    from benchmarks.workers.keras_steps import CLASSES, SHAPES, make_model

    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch * steps, *SHAPES[cell["net"]]), dtype="float32")
    y = rng.integers(0, CLASSES, batch * steps)
    with tempfile.TemporaryDirectory() as folder:

        class Profile(keras.callbacks.Callback):
            """Watches one epoch."""

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                """Begins."""
                if epoch == 3:
                    tf.profiler.experimental.start(folder)

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                """Ends."""
                if epoch == 3:
                    tf.profiler.experimental.stop()

        model = make_model(dict(cell))
        model.fit(x, y, batch_size=batch, epochs=5, verbose=0, callbacks=[Profile()])
        (path,) = Path(folder).rglob("*.xplane.pb")
        return {"steps": steps, "operations": by_operation(host_events(path), steps)}


def host_events(path: Path) -> list[tuple[str, float]]:
    """Names and milliseconds of what the processor did."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    return [
        (plane.event_metadata[event.metadata_id].name, event.duration_ps / 1e9)
        for plane in space.planes
        if plane.name.startswith("/host:CPU")
        for line in plane.lines
        for event in line.events
    ]


@click.command()
@click.option("--net", type=click.Choice(list(PROFILES)), default="mlp", show_default=True)
@clocks.options
def main(net: str, results: Path, seconds: float, quick: bool) -> None:
    """Writes step_profile_NET.json and step_profile_NET.md, if there is time for all columns."""
    clock, told = Clock(seconds), PROFILES[net]
    batch, steps = (64, 3) if quick else (told.batch, told.steps)
    cells: dict[str, dict[str, Any]] = {}
    for name, (kind, activation, pooling) in told.columns.items():
        if clock.left <= 0:
            return
        cell = {"net": told.net, "kind": kind, "activation": activation, "pooling": pooling}
        cells[name] = profiled(cell, batch, steps)
    write(
        f"step_profile_{net}",
        cells,
        table(cells),
        command=f"python -m benchmarks.step_profile --net {net}",
        packages=versions(),
        folder=results,
        batch=batch,
    )
    click.echo(table(cells))


if __name__ == "__main__":
    main()
