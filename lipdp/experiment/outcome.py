"""What an experiment gives back, and who listens to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lipdp.results import RunResult


@dataclass(frozen=True)
class TrainOutcome:
    """A finished run.

    Attributes:
        result: What ``result.json`` holds.
        output: The run's folder.
        baseline: Accuracy and AUROC of a non-private logistic regression on the same split and
            encoding. Exact functions of the training rows: for the eyes of whoever trains, in no
            file.
    """

    result: RunResult
    output: Path
    baseline: dict[str, float | None]


class Listener(Protocol):
    """Hears about the progress of a run."""

    def on_start(self, plan: dict[str, Any], total_epochs: int, steps_per_epoch: int) -> None:
        """The plan is made; training begins."""

    def on_step(self, epoch: int, step: int) -> None:
        """A step is done."""

    def on_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """An epoch is done."""

    def on_message(self, text: str) -> None:
        """Something worth a line."""
