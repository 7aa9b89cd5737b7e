"""What training says while it runs: a live bar in a terminal, a line an epoch elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lipdp.cli._output import cell

if TYPE_CHECKING:
    from rich.progress import Progress

_SHOWN = {
    "epsilon": "epsilon",
    "val_accuracy": "validation accuracy",
    "val_certified_accuracy": "certified",
}


class PlainListener:
    """Writes one line an epoch."""

    def __init__(self) -> None:
        self._done = 0
        self._total = 0

    def on_start(self, plan: dict[str, Any], total_epochs: int, steps_per_epoch: int) -> None:
        """Says how long the training is and how much noise it adds."""
        self._total = total_epochs
        self._write(_opening(plan, total_epochs, steps_per_epoch))

    def on_step(self, epoch: int, step: int) -> None:
        """Says nothing: a line a step would flood a log."""

    def on_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """Writes what the epoch reached."""
        self._done += 1
        self._write(_epoch_line(self._done, self._total, logs))

    def on_message(self, text: str) -> None:
        """Passes a message on."""
        self._write(text)

    def _write(self, text: str) -> None:
        click.echo(text)


class TerminalListener(PlainListener):
    """A bar for the present epoch; each finished epoch stays as a line above it."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress
        self._task = progress.add_task("preparing", total=None)

    def on_start(self, plan: dict[str, Any], total_epochs: int, steps_per_epoch: int) -> None:
        """Writes the opening line and sets the length of the bar."""
        super().on_start(plan, total_epochs, steps_per_epoch)
        self._progress.reset(self._task, total=steps_per_epoch, description=self._title())

    def on_step(self, epoch: int, step: int) -> None:
        """Moves the bar."""
        self._progress.advance(self._task)

    def on_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """Leaves the epoch as a line and starts the next bar."""
        super().on_epoch(epoch, logs)
        if self._done < self._total:
            self._progress.reset(self._task, description=self._title())
        else:
            self._progress.update(self._task, description="evaluating", total=None)

    def _title(self) -> str:
        return f"epoch {self._done + 1}/{self._total}"

    def _write(self, text: str) -> None:
        self._progress.console.print(text)


@contextmanager
def listener(silent: bool) -> Iterator[PlainListener | None]:
    """The listener that fits where the output goes; None if nothing may be written."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    if silent or not console.is_terminal:
        yield None if silent else PlainListener()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield TerminalListener(progress)


def _opening(plan: dict[str, Any], epochs: int, steps: int) -> str:
    noise = plan.get("noise_multiplier")
    known = "" if noise is None else f", noise multiplier {cell(noise)}"
    return f"{epochs} epochs of {steps} steps{known}"


def _epoch_line(number: int, total: int, logs: dict[str, float]) -> str:
    parts = [f"{label} {logs[key]:.4f}" for key, label in _SHOWN.items() if key in logs]
    return f"epoch {number:>{len(str(total))}}/{total}  " + "  ".join(parts)
