"""The ledger on disk, ahead of every step."""

from __future__ import annotations

import os
from pathlib import Path

from lipdp.errors import InvalidData
from lipdp.privacy import PrivacyLedger


class LedgerFile:
    """One file with one ledger, replaced as a whole.

    Guarantees:

    * When ``write`` returns, the file survives the death of the process and of the machine.
    * At every moment the file holds the ledger of the last or of the last but one ``write``, whole.

    Args:
        path: The file; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

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
        """Replaces the file; durable at return."""
        _make_folder(self._path.parent)
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
