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
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidData(
                "The ledger file is not readable", received=str(self._path)
            ) from error

    def write(self, ledger: PrivacyLedger) -> None:
        """Replaces the file; durable at return."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".tmp")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(ledger.to_json())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
