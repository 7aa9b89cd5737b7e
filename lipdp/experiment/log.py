"""The log of a run, for whoever was not there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from lipdp.experiment.outcome import Listener
from lipdp.reports import not_private_reason
from lipdp.results import RunResult, epoch_line, opening_line
from lipdp.results.lines import decimals_up


class RunLog:
    """Listens to a run, writes it down with the time, and passes it on.

    Lines are kept in memory until the run has a place on disk, and reach it at once from then on.

    Guarantees:
        * No line holds a number that was measured on training rows without noise.

    Args:
        listener: Who else listens.
        radius: Of the certified accuracy that an epoch says.
    """

    def __init__(self, listener: Listener | None, radius: float) -> None:
        self._listener, self._radius = listener, radius
        self._path: Path | None = None
        self._waiting: list[str] = []
        self._total = 0

    def keep_in(self, path: Path) -> None:
        """From now on the lines go to a file, after those that are there already."""
        self._path = path
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self._append(line)

    def text(self) -> str:
        """All lines so far."""
        if self._path is None:
            return "".join(self._waiting)
        return self._path.read_text(encoding="utf-8")

    def note(self, text: str) -> None:
        """Writes a line that nobody else hears."""
        self._append(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}\n")

    def begin(self, output: Path, versions: Mapping[str, str], *, resumed: bool) -> None:
        """Writes where the run lies and what runs it."""
        self.note(", ".join(f"{name} {number}" for name, number in versions.items()))
        self.on_message(f"the run lies in {output}")
        if resumed:
            self.on_message("going on with an interrupted run")
        self.on_message("loading rows")

    def end(self, result: RunResult) -> None:
        """Writes what the run came to."""
        spent, test = result.spent, result.test
        self.note(
            f"epsilon {decimals_up(spent.epsilon)} at delta {spent.delta:g}, {spent.steps} steps"
        )
        self.note(f"test accuracy {test.accuracy:.4f} on {test.rows} held-out rows")
        if result.uncertified:
            self.note(result.uncertified)
        reason = not_private_reason(result)
        if reason:
            self.note(f"NOT PRIVATE: {reason}")
        self.note("interrupted: it can go on" if result.interrupted else "finished")

    def on_start(self, plan: dict[str, Any], total_epochs: int, steps_per_epoch: int) -> None:
        """Writes the length of the training."""
        self._total = total_epochs
        self.note(opening_line(plan, total_epochs, steps_per_epoch))
        if self._listener is not None:
            self._listener.on_start(plan, total_epochs, steps_per_epoch)

    def on_step(self, epoch: int, step: int) -> None:
        """Passes it on."""
        if self._listener is not None:
            self._listener.on_step(epoch, step)

    def on_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """Writes what the epoch reached, and at which radius it is certified."""
        logs = {**logs, "certified_radius": self._radius}
        self.note(epoch_line(epoch + 1, self._total, logs))
        if self._listener is not None:
            self._listener.on_epoch(epoch, logs)

    def on_message(self, text: str) -> None:
        """Writes the message."""
        self.note(text)
        if self._listener is not None:
            self._listener.on_message(text)

    def _append(self, line: str) -> None:
        if self._path is None:
            self._waiting.append(line)
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
