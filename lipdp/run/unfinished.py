"""What an interrupted run leaves behind, from which it goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import keras
import pandas as pd
from filelock import FileLock

from lipdp._version import __version__
from lipdp.config import RunConfig
from lipdp.errors import BudgetExhausted, InvalidData, InvalidState, InvalidValue
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.spent import lost_error, unfinished_ledger
from lipdp.results import RunResult
from lipdp.results.unfinished import (
    BACKUP_FOLDER,
    CONFIG_FILE,
    LEDGER_FILE,
    MODEL_FILE,
    PATHS,
    ledger_is_missing,
    unfinished_folder,
)
from lipdp.run.callbacks import Backup, Clock, ClockCallback, EpochLog, StopCallback, read_epochs
from lipdp.run.folder import locked
from lipdp.training import Sequential, load_model
from lipdp.training.ledger_file import LedgerFile, lost_ledger, remove_lock

_EPOCHS, _LOG, _SECONDS = "epochs.jsonl", "train.log", "seconds.json"


class Unfinished:
    """A hidden folder beside a run's own, there from the first step to the end of the run.

    It holds the ledger, from before the first step on and ahead of each; the model before its first
    step, with what its preprocessing has cost; a backup of each epoch; the log; and what may be
    published of each epoch. The same command continues from it, or ``resume``.

    Guarantees:

    * A run that is continued counts every step that ran before, and its time.
    * One process at a time trains it.
    * A run whose ledger is missing, damaged or behind its backup is not continued. One that begins
      in its place says for good that an earlier run of unknown cost read the rows
      (``test_lost_ledger.py``).
    * What an unfinished run spent is thrown away when another one begins in its place, not before.
    * Nothing of it that was measured on training rows without noise is a number to read.

    Args:
        output: The run's own folder.
        config: What is trained on what.
        overwrite: Whether an unfinished run of another configuration is thrown away.
        ledger_lost: Whether one whose ledger is lost is thrown away, and the new one says so.

    Raises:
        InvalidValue: If there is an unfinished run of another configuration or version, or no
            ledger is lost.
        InvalidData: If the ledger of the unfinished run is lost.
        InvalidState: If another process trains the run.
    """

    def __init__(
        self, output: Path, config: RunConfig, *, overwrite: bool, ledger_lost: bool = False
    ) -> None:
        self._folder, self._output = unfinished_folder(output), output
        self._lock: FileLock | None = None
        self._config, self._replaces = _settings(config), ledger_lost
        self._follows_lost = ledger_lost
        if ledger_lost:
            self._check_lost(output)
        elif self._folder.exists() and not self._is_same(output):
            if not overwrite:
                raise InvalidValue(
                    "An unfinished run with other settings lies here; "
                    + ("what it spent is spent" if self._has_spent() else "it has spent nothing"),
                    received=str(self._folder),
                    fix=f"Finish it with `lipdp train --resume {output}`, choose another --output, "
                    "or add --overwrite to throw it away",
                )
            self._replaces = True
        else:
            self._check_ledger(output)
        self.clock = Clock(self._folder / _SECONDS, anew=self._replaces)

    def _lost(self, output: Path) -> str | None:
        """What is wrong with the ledger of an unfinished run; None if it says what was spent."""
        if ledger_is_missing(output):
            return "is missing"
        try:
            return lost_ledger(self._folder / BACKUP_FOLDER, LedgerFile(self.ledger_path))
        except InvalidData:
            return "cannot be read"

    def _check_ledger(self, output: Path) -> None:
        lost = self._lost(output)
        if lost is not None:
            raise lost_error(self.ledger_path, lost, output)

    def _check_lost(self, output: Path) -> None:
        if self._folder.exists() and self._lost(output) is not None:
            return
        raise InvalidValue(
            "No unfinished run lies here whose ledger is lost",
            received=str(self.ledger_path),
            fix="Leave out --ledger-lost: what the run spent is known, and it can go on",
        )

    def _has_spent(self) -> bool:
        """Whether the ledger says anything; what cannot be read may say everything."""
        try:
            known = unfinished_ledger(self._output)
        except InvalidData:
            return True
        return known is not None and _says_anything(known)

    def __enter__(self) -> Self:
        if self._folder.is_dir():
            self._hold()
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            remove_lock(self._lock)
            self._lock = None

    def _hold(self) -> None:
        """Keeps other processes out until this one ends, however it ends."""
        self._lock = locked(self._folder)
        if self._lock is None:
            raise InvalidState(
                "Another process trains this run now",
                received=str(self._folder),
                fix="Wait until it has ended, or choose another --output",
            )

    def _is_same(self, output: Path) -> bool:
        path = self._folder / CONFIG_FILE
        return path.is_file() and _read(path, output) == self._config

    @property
    def exists(self) -> bool:
        """Whether there is something to go on with."""
        return not self._replaces and (self._folder / MODEL_FILE).is_file()

    @property
    def log_path(self) -> Path:
        """Where the log is kept."""
        return self._folder / _LOG

    @property
    def ledger_path(self) -> Path:
        """Where what was spent is kept, from before the first step on."""
        return self._folder / LEDGER_FILE

    def model(self) -> Sequential | None:
        """The model before its first step, or None if there was none."""
        if not self.exists:
            return None
        model: Sequential = load_model(self._folder / MODEL_FILE, compile=False)
        known = unfinished_ledger(self._output)
        if known is None or not known.holds(model.ledger):
            raise lost_error(
                self.ledger_path, "holds less than was spent before the first step", self._output
            )
        return model

    def begin(self, model: Sequential) -> None:
        """Keeps the untrained model; the last file to be written, so that it is whole or absent."""
        if self._replaces:
            self.remove()
        if self._follows_lost:
            model.declare_lost_run()
        if self._lock is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._hold()
        text = json.dumps({"lipdp": __version__, "config": self._config})
        (self._folder / CONFIG_FILE).write_text(text, encoding="utf-8")
        self.keep_ledger(model.ledger)
        fresh = self._folder / f"fresh-{MODEL_FILE}"
        model.save(fresh)
        fresh.replace(self._folder / MODEL_FILE)

    def callbacks(self, stop: StopCallback) -> list[keras.callbacks.Callback]:
        """The backup of each epoch, and its publishable numbers; ``stop`` comes before them."""
        return [
            EpochLog(self._folder / _EPOCHS),
            Backup(self._folder / BACKUP_FOLDER, stop),
            ClockCallback(self.clock),
        ]

    @contextlib.contextmanager
    def kept_if_begun(self) -> Iterator[None]:
        """Around the making of the model and its training: keeps what was spent, and its time.

        What ends before anything was spent, however it ends, leaves nothing behind.
        """
        try:
            yield
        except BaseException:
            if self._replaces or self._lock is None:
                raise  # What lies there, if anything does, belongs to another run.
            # The ledger is on disk before anything is spent.
            if self._has_spent():
                self.clock.keep()
            else:
                self.remove()
            raise

    @contextlib.contextmanager
    def ended_by_budget(self) -> Iterator[None]:
        """Around the steps: a run that is continued may find its budget spent.

        It ends with the weights of its last backup, if there is one. What its preprocessing spent
        was seen by nobody if not one step is affordable.
        """
        try:
            yield
        except BudgetExhausted:
            if (self._folder / _EPOCHS).is_file():
                return
            known = unfinished_ledger(self._output)
            if known is None or not (known.steps or known.remarks.of("other_accesses")):
                self.remove()
            raise

    def keep_ledger(self, ledger: PrivacyLedger) -> None:
        """Writes what was spent, durable at return, and the time."""
        LedgerFile(self.ledger_path).write(ledger)
        self.clock.keep()

    def add_spent(self, ledger: PrivacyLedger) -> None:
        """Adds what earlier attempts spent, where no backup brings it along."""
        known = unfinished_ledger(self._output)
        if known is not None:
            ledger.merge(known)

    def history(self) -> pd.DataFrame:
        """One row an epoch, those before an interruption too."""
        return read_epochs(self._folder / _EPOCHS)

    def remove(self) -> None:
        """The run is finished, or thrown away."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._replaces = False
        self.__exit__()


def unfinished_config(output: Path) -> RunConfig:
    """The configuration of an interrupted run.

    Args:
        output: The run's own folder, which need not be there.

    Raises:
        InvalidValue: If the run is finished, there is none, or another version began it.
    """
    path = unfinished_folder(output) / CONFIG_FILE
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
    return (unfinished_folder(output) / MODEL_FILE).is_file()


def _says_anything(ledger: PrivacyLedger) -> bool:
    """Whether a run that did nothing yet would be missed."""
    return bool(ledger.phases or ledger.unknown_history or ledger.remarks.of("other_accesses"))


def forget(output: Path) -> None:
    """Removes what an interrupted run left behind, for whoever kept what it spent."""
    shutil.rmtree(unfinished_folder(output), ignore_errors=True)


def can_resume(output: Path) -> bool:
    """Whether the files in a run's folder are those of an interrupted run that can go on."""
    if not is_unfinished(output):
        return False
    try:
        return RunResult.load(output / "result.json").interrupted
    except InvalidData:
        return False


def _settings(config: RunConfig) -> dict[str, Any]:
    """The configuration with whole paths: a run may go on from another folder."""
    plain = config.model_dump(mode="json")
    for section, key in PATHS:
        # Options that are free may hold anything else, which is refused where it is used.
        if isinstance(plain[section].get(key), str):
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
