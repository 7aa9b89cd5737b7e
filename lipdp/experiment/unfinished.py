"""What an interrupted run leaves behind, from which it goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pandas as pd

from lipdp._version import __version__
from lipdp.config import RunConfig
from lipdp.errors import BudgetExhausted, InvalidData, InvalidValue, LipdpError
from lipdp.experiment.progress import public_logs
from lipdp.experiment.stop import StopCallback
from lipdp.privacy import PrivacyLedger
from lipdp.results import RunResult
from lipdp.training import Sequential, load_model
from lipdp.training.ledger_file import LedgerFile

_CONFIG, _MODEL, _EPOCHS, _LOG = "config.json", "start.keras", "epochs.jsonl", "train.log"
_BACKUP, _LEDGER = "backup", "backup.privacy_ledger.json"
_PATHS = (
    ("data", "path"),
    ("data", "schema_path"),
    ("data", "dir"),
    ("data", "labels"),
    ("training", "tensorboard"),
)


class Unfinished:
    """A hidden folder beside a run's own, there from the first step to the end of the run.

    It holds the model before its first step, with what its preprocessing has cost; a backup of each
    epoch with the ledger, which is on disk before every step; the log; and what may be published of
    each epoch. The same command continues from it, or ``resume``.

    Guarantees:

    * A run that is continued counts every step that ran before.
    * Nothing of it that was measured on training rows without noise is a number to read.

    Args:
        output: The run's own folder.
        config: What is trained on what.
        overwrite: Whether an unfinished run of another configuration is thrown away.

    Raises:
        InvalidValue: If there is an unfinished run of another configuration or version.
    """

    def __init__(self, output: Path, config: RunConfig, *, overwrite: bool) -> None:
        self._folder = _folder_of(output)
        self._config = _settings(config)
        if self._folder.exists() and not self._is_same(output):
            if not overwrite:
                raise InvalidValue(
                    "An unfinished run with other settings lies here; what it spent is spent",
                    received=str(self._folder),
                    fix=f"Finish it with `lipdp train --resume {output}`, choose another --output, "
                    "or add --overwrite to throw it away",
                )
            self.remove()

    def _is_same(self, output: Path) -> bool:
        path = self._folder / _CONFIG
        return path.is_file() and _read(path, output) == self._config

    @property
    def exists(self) -> bool:
        """Whether there is something to go on with."""
        return (self._folder / _MODEL).is_file()

    @property
    def log_path(self) -> Path:
        """Where the log is kept."""
        return self._folder / _LOG

    def model(self) -> Sequential | None:
        """The model before its first step, or None if there was none."""
        return load_model(self._folder / _MODEL, compile=False) if self.exists else None

    def begin(self, model: keras.Model) -> None:
        """Keeps the untrained model; the last file to be written, so that it is whole or absent."""
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"lipdp": __version__, "config": self._config})
        (self._folder / _CONFIG).write_text(text, encoding="utf-8")
        fresh = self._folder / f"fresh-{_MODEL}"
        model.save(fresh)
        fresh.replace(self._folder / _MODEL)

    def callbacks(self, stop: StopCallback) -> list[keras.callbacks.Callback]:
        """The backup of each epoch, and its publishable numbers; ``stop`` comes before them."""
        return [_EpochLog(self._folder / _EPOCHS), _Backup(self._folder / _BACKUP, stop)]

    @contextlib.contextmanager
    def kept_if_begun(self, model: Sequential) -> Iterator[None]:
        """Around the training: what ends before anything was spent leaves nothing behind.

        A run that is continued and finds its budget spent ends with the weights of its last backup.
        """
        try:
            yield
        except BudgetExhausted:
            if not (self._folder / _EPOCHS).is_file():
                self.remove()
                raise
        except (LipdpError, KeyboardInterrupt):
            if not model.ledger.phases and not (self._folder / _LEDGER).exists():
                self.remove()
            raise

    def keep_ledger(self, ledger: PrivacyLedger) -> None:
        """Writes what was spent; durable at return."""
        LedgerFile(self._folder / _LEDGER).write(ledger)

    def add_spent(self, ledger: PrivacyLedger) -> None:
        """Adds what earlier attempts spent, where no backup brings it along."""
        known = LedgerFile(self._folder / _LEDGER).read()
        if known is not None:
            ledger.merge(known)

    def history(self) -> pd.DataFrame:
        """One row an epoch, those before an interruption too."""
        lines = (self._folder / _EPOCHS).read_text(encoding="utf-8").splitlines()
        rows = {row["epoch"]: row for row in map(json.loads, lines)}
        return pd.DataFrame([rows[epoch] for epoch in sorted(rows)])

    def remove(self) -> None:
        """The run is finished, or thrown away."""
        shutil.rmtree(self._folder, ignore_errors=True)


def unfinished_config(output: Path) -> RunConfig:
    """The configuration of an interrupted run.

    Args:
        output: The run's own folder, which need not be there.

    Raises:
        InvalidValue: If the run is finished, there is none, or another version began it.
    """
    path = _folder_of(output) / _CONFIG
    if path.is_file():
        return RunConfig(**_read(path, output))
    if (output / "result.json").is_file():
        raise InvalidValue(
            "This run is finished: there is nothing to go on with",
            received=str(output),
            fix="Start another one with lipdp train --output and a new folder",
        )
    raise InvalidValue(
        "There is no interrupted run of this name",
        received=str(output),
        fix="Give the folder that lipdp train named when it began",
    )


def is_unfinished(output: Path) -> bool:
    """Whether there is a run of this folder that can go on."""
    return (_folder_of(output) / _MODEL).is_file()


def spent_by(output: Path) -> PrivacyLedger | None:
    """What an interrupted run has spent; None if there is none.

    Raises:
        InvalidData: If its ledger was cut or edited.
    """
    folder = _folder_of(output)
    known = LedgerFile(folder / _LEDGER).read()
    if known is None and (folder / _MODEL).is_file():
        known = load_model(folder / _MODEL, compile=False).ledger
    return known


def forget(output: Path) -> None:
    """Removes what an interrupted run left behind, for whoever kept what it spent."""
    shutil.rmtree(_folder_of(output), ignore_errors=True)


def can_resume(output: Path) -> bool:
    """Whether the files in a run's folder are those of an interrupted run that can go on."""
    if not is_unfinished(output):
        return False
    try:
        return RunResult.load(output / "result.json").interrupted
    except InvalidData:
        return False


def _folder_of(output: Path) -> Path:
    whole = Path(os.path.abspath(output))
    return whole.with_name(f".{whole.name}.unfinished")


def _settings(config: RunConfig) -> dict[str, Any]:
    """The configuration with whole paths: a run may go on from another folder."""
    plain = config.model_dump(mode="json")
    for section, key in _PATHS:
        if plain[section].get(key) is not None:
            plain[section][key] = os.path.abspath(plain[section][key])
    return plain


def _read(path: Path, output: Path) -> dict[str, Any]:
    """The settings in a file of an unfinished run."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        begun_by, config = kept["lipdp"], kept["config"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(
            f"The unfinished run is damaged ({error!r}); what it spent is in the ledger beside it",
            received=str(path),
            fix="Choose another --output, or delete its folder",
        ) from error
    if begun_by != __version__:
        raise InvalidValue(
            f"lipdp {begun_by} began this run, and this is lipdp {__version__}",
            received=str(output),
            fix=f"Finish it with that version: pip install lipdp=={begun_by}; or choose another "
            "--output",
        )
    return dict(config)


class _EpochLog(keras.callbacks.Callback):
    """Epsilon and held-out metrics; what was measured on training rows stays out."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Appends one line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": epoch + 1, **public_logs(logs)}) + "\n")


class _Backup(keras.callbacks.BackupAndRestore):
    """Keras' backup; an epoch that was stopped inside begins anew, with the weights reached."""

    def __init__(self, folder: Path, stop: StopCallback) -> None:
        super().__init__(str(folder), double_checkpoint=True, delete_checkpoint=False)
        self._stop = stop

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Saves the weights, and the epoch to go on with."""
        super().on_epoch_end(epoch - 1 if self._stop.inside_epoch else epoch, logs)
