"""What an interrupted run leaves behind, from which the same command continues."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pandas as pd

from lipdp.config import RunConfig
from lipdp.errors import BudgetExhausted, InvalidValue, LipdpError
from lipdp.training import Sequential, load_model

_CONFIG, _MODEL, _EPOCHS = "config.json", "start.keras", "epochs.jsonl"


class Unfinished:
    """A hidden folder beside a run's own, there from the first step to the end of the run.

    It holds the model before its first step, with what its preprocessing has cost; a backup of each
    epoch with the ledger, which is on disk before every step; and what may be published of each
    epoch. The same command continues from it.

    Guarantees:

    * A run that is continued counts every step that ran before.
    * Nothing of it that was measured on training rows without noise is a number to read.

    Args:
        output: The run's own folder.
        config: What is trained on what.
        overwrite: Whether an unfinished run of another configuration is thrown away.

    Raises:
        InvalidValue: If there is an unfinished run of another configuration.
    """

    def __init__(self, output: Path, config: RunConfig, *, overwrite: bool) -> None:
        self._folder = output.with_name(f".{output.name}.unfinished")
        self._config = config.model_dump(mode="json")
        if self._folder.exists() and not self._is_same():
            if not overwrite:
                raise InvalidValue(
                    "An unfinished run with other settings lies here; what it spent is spent",
                    received=str(self._folder),
                    fix="Repeat its command to finish it, choose another --output, or add "
                    "--overwrite to throw it away",
                )
            self.remove()

    def _is_same(self) -> bool:
        path = self._folder / _CONFIG
        return path.is_file() and json.loads(path.read_text(encoding="utf-8")) == self._config

    def model(self) -> Sequential | None:
        """The model before its first step, or None if there was none."""
        path = self._folder / _MODEL
        return load_model(path, compile=False) if path.is_file() else None

    def begin(self, model: keras.Model) -> None:
        """Keeps the untrained model; the last file to be written, so that it is whole or absent."""
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._config)
        (self._folder / _CONFIG).write_text(text, encoding="utf-8")
        fresh = self._folder / f"fresh-{_MODEL}"
        model.save(fresh)
        fresh.replace(self._folder / _MODEL)

    def callbacks(self) -> list[keras.callbacks.Callback]:
        """The backup of each epoch, and its publishable numbers."""
        return [
            _EpochLog(self._folder / _EPOCHS),
            keras.callbacks.BackupAndRestore(
                str(self._folder / "backup"), double_checkpoint=True, delete_checkpoint=False
            ),
        ]

    @contextlib.contextmanager
    def kept_if_begun(self, model: Sequential) -> Iterator[None]:
        """Around the training: what fails before anything was spent leaves nothing behind.

        A run that is continued and finds its budget spent ends with the weights of its last backup.
        """
        try:
            yield
        except BudgetExhausted:
            if not (self._folder / _EPOCHS).is_file():
                self.remove()
                raise
        except LipdpError:
            if not model.ledger.phases:
                self.remove()
            raise

    def history(self) -> pd.DataFrame:
        """One row an epoch, those before an interruption too."""
        lines = (self._folder / _EPOCHS).read_text(encoding="utf-8").splitlines()
        rows = {row["epoch"]: row for row in map(json.loads, lines)}
        return pd.DataFrame([rows[epoch] for epoch in sorted(rows)])

    def remove(self) -> None:
        """The run is finished, or thrown away."""
        shutil.rmtree(self._folder, ignore_errors=True)


class _EpochLog(keras.callbacks.Callback):
    """Epsilon and held-out metrics; what was measured on training rows stays out."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Appends one line."""
        shown = {
            name: float(value)
            for name, value in (logs or {}).items()
            if name == "epsilon" or name.startswith("val_")
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": epoch + 1, **shown}) + "\n")
