"""What an experiment gives back, and who listens to it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from lipdp.privacy import PrivacyStatement
from lipdp.results import RunResult
from lipdp.training import Sequential


@dataclass(frozen=True)
class TrainOutcome:
    """A finished run.

    Attributes:
        result: What ``result.json`` holds.
        output: The run's folder.
        fit_baseline: Fits what ``baseline`` says.
    """

    result: RunResult
    output: Path
    fit_baseline: Callable[[], dict[str, float | None]]

    @functools.cached_property
    def baseline(self) -> dict[str, float | None]:
        """Accuracy and AUROC of a non-private logistic regression on the same split and encoding.

        Fitted when it is asked for. Exact functions of the training rows: for the eyes of whoever
        trains, in no file.
        """
        return self.fit_baseline()


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


@dataclass(frozen=True)
class Trained:
    """A model after its last step.

    Attributes:
        model: With the plan and the ledger of its training.
        history: One row an epoch: epsilon and held-out metrics.
        record: The plan as plain data.
        statement: The guarantee.
        peak_memory_bytes: Largest resident memory of the process that trained, or None.
    """

    model: Sequential
    history: pd.DataFrame
    record: dict[str, Any]
    statement: PrivacyStatement
    peak_memory_bytes: int | None
