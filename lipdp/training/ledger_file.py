"""The ledger on disk, ahead of every step."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from lipdp.errors import InvalidData
from lipdp.privacy import PrivacyLedger


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
        if not self._path.exists():
            return None
        try:
            return PrivacyLedger.from_json(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, InvalidData) as error:
            raise InvalidData(
                f"The ledger file is not readable: {error}",
                received=str(self._path),
                fix="Restore it from a copy. Without it nothing says what earlier runs spent",
            ) from error

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
        """Deletes the file, if there is one."""
        self._path.unlink(missing_ok=True)
        self._lock.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Waits for other processes that write; file systems without locks have none."""
    with path.open("a", encoding="utf-8") as opened:
        with contextlib.suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
