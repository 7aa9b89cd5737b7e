"""The ledger on disk, ahead of every step and of every backup."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
from filelock import FileLock

from lipdp.errors import InvalidData
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.spent import read_ledger_file


class LedgerFile:
    """One file with one ledger, replaced as a whole.

    Guarantees:

    * When ``write`` returns, the file survives the death of the process and of the machine.
    * At every moment the file holds the ledger of the last or of the last but one ``write``, whole.
    * What two processes write adds up, whoever is last.

    Args:
        path: The file; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = path.with_name(f"{path.name}.lock")

    def read(self) -> PrivacyLedger | None:
        """The ledger, or None if there is no file yet.

        Raises:
            InvalidData: If the file was cut or edited.
        """
        return read_ledger_file(self._path)

    def write(self, ledger: PrivacyLedger) -> None:
        """Replaces the file; durable at return.

        The ledger takes over what another process wrote there since then.

        Raises:
            InvalidData: If the file was cut or edited, or counts under another adjacency.
        """
        _make_folder(self._path.parent)
        with _locked(self._lock):
            known = self.read()
            if known is not None:
                ledger.merge(known)
            fresh = self._path.with_name(f"{self._path.name}.tmp")
            with fresh.open("w", encoding="utf-8") as file:
                file.write(ledger.to_json())
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        _sync_folder(self._path.parent)

    def remove(self) -> None:
        """Deletes the file, if there is one, when no other process writes it."""
        if self._path.parent.is_dir():
            with _locked(self._lock) as lock:
                self._path.unlink(missing_ok=True)
                remove_lock(lock)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[FileLock]:
    """Waits for other processes that write; file systems without locks have none.

    Who held the lock may have removed its file meanwhile; a lock on a removed file counts as none.
    """
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire()
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise
    try:
        yield lock
    finally:
        lock.release()


def remove_lock(lock: FileLock) -> None:
    """Ends a lock and deletes its file, while nobody else can have locked it."""
    # Windows deletes no open file; there the release does.
    with contextlib.suppress(OSError):
        os.unlink(lock.lock_file)
    lock.release()


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, where folders can be opened: not on Windows."""
    if os.name == "nt":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


#: What Keras keeps in the folder of a backup.
_WEIGHTS = ("latest.weights.h5", "latest.weights.h5.bkp")
_METADATA = ("training_metadata.json", "training_metadata.json.bkp")
#: Where the ledger of a saved model lies in its file of weights.
_LEDGER = "vars/lipdp_ledger"

_FIX = (
    "Restore the ledger file from a copy. If it is lost, nobody can say what was spent: remove the"
    " backup, begin with new weights, and call model.declare_lost_run() before fit, so that the"
    " statement says that an earlier run of unknown cost read the rows"
)


def lost_ledger(backup: Path, file: LedgerFile) -> str | None:
    """Why nobody knows what the run spent that a backup is of; None if the ledger file knows it.

    The file is written before each step and a backup after some of them. So it is there whenever
    the backup is, holds all that the backup does, and what it holds beyond that was spent too.

    Args:
        backup: The folder of the backup, there or not.
        file: The ledger that was kept while the backup was written.

    Raises:
        InvalidData: If the file was cut or edited.
    """
    if not any((backup / name).exists() for name in (*_WEIGHTS, *_METADATA)):
        return None
    known = file.read()
    if known is None:
        return "is missing"
    kept = (_ledger_in(backup / name) for name in _WEIGHTS)
    if all(one is None or known.holds(one) for one in kept):
        return None
    return "holds less than the backup, and a ledger file is never behind one"


def check_metadata(backup: Path) -> None:
    """Names what Keras alone would call an expected value in line 1.

    Raises:
        InvalidData: If the backup was cut.
    """
    path = backup / _METADATA[0]
    try:
        if path.exists():
            json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidData(
            "The backup was cut while it was written",
            received=str(path),
            fix="Delete this file, and training starts from the first epoch with the weights of the"
            " backup; or delete the folder. The ledger beside it stays",
        ) from error


def check_backup(backup: Path, path: Path) -> None:
    """Refuses to go on from a backup whose ledger was lost.

    Args:
        backup: Its folder, there or not.
        path: Where its ledger is kept.

    Raises:
        InvalidData: If the file lacks what was spent.
    """
    lost = lost_ledger(backup, LedgerFile(path))
    if lost is not None:
        raise InvalidData(
            f"A backup lies in {backup}, but its ledger file {lost}", received=str(path), fix=_FIX
        )


class KnownBackup(keras.callbacks.Callback):
    """Refuses a restored backup whose steps the ledger file did not hold.

    For a backup that only Keras can look at; it comes behind the callback that restores.

    Args:
        ledger: Of everything that is known before, the file included.
        path: The ledger file.
        found: Whether there was one.
    """

    def __init__(self, ledger: PrivacyLedger, path: Path, *, found: bool) -> None:
        super().__init__()
        self._ledger, self._path, self._found = ledger, path, found

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Compares, before anything is recorded.

        Raises:
            InvalidData: If the file lacks what the backup holds, or is missing.
        """
        restored = self.model._private.ledger
        if restored is self._ledger or (self._found and self._ledger.holds(restored)):
            return
        raise InvalidData(
            "A backup was restored whose steps the ledger file does not hold",
            received=str(self._path),
            fix=_FIX,
        )


class RemoveLedgerFile(keras.callbacks.Callback):
    """Deletes the ledger file of a backup once the training is complete.

    It is the last callback: at every moment before, a backup on disk has its ledger beside it.

    Args:
        file: The ledger file.
    """

    def __init__(self, file: LedgerFile) -> None:
        super().__init__()
        self._file = file

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Deletes the file."""
        self._file.remove()


def _ledger_in(weights: Path) -> PrivacyLedger | None:
    """The ledger in a file of weights; None where Keras, too, finds none or cannot read it."""
    try:
        with h5py.File(weights, "r") as file:
            text = np.asarray(file[_LEDGER]).tobytes().decode("utf-8")
        return PrivacyLedger.from_json(text)
    # Damaged files break anywhere in h5py; whoever restores them says so.
    except Exception:
        return None
