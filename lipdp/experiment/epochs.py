"""What an unfinished run keeps of each epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import pandas as pd

from lipdp.experiment.progress import public_logs
from lipdp.experiment.stop import StopCallback


def read_epochs(path: Path) -> pd.DataFrame:
    """What ``EpochLog`` wrote: one row an epoch, the last one where an epoch ran twice."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = {row["epoch"]: row for line in lines if (row := _epoch(line)) is not None}
    return pd.DataFrame([rows[epoch] for epoch in sorted(rows)])


def _epoch(line: str) -> dict[str, Any] | None:
    """What an epoch reached; None for a line that a full disk cut: its curve lacks a point then."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "epoch" in row else None


class EpochLog(keras.callbacks.Callback):
    """Epsilon and held-out metrics; what was measured on training rows stays out."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Appends one line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": epoch + 1, **public_logs(logs)}) + "\n")


class Backup(keras.callbacks.BackupAndRestore):
    """Keras' backup; an epoch that was stopped inside begins anew, with the weights reached."""

    def __init__(self, folder: Path, stop: StopCallback) -> None:
        super().__init__(str(folder), double_checkpoint=True, delete_checkpoint=False)
        self._stop = stop

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Saves the weights, and the epoch to go on with."""
        super().on_epoch_end(epoch - 1 if self._stop.inside_epoch else epoch, logs)
