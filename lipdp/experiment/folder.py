"""The folder of a run: complete or not there."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from lipdp.errors import InvalidValue


class RunFolder:
    """Collects the files of a run beside its final place and moves them there at the end.

    Args:
        path: The run's own folder.
        overwrite: Whether a folder that holds files may be replaced.

    Raises:
        InvalidValue: If it holds files and may not be replaced, or is a file.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self.path = path
        self._made: list[Path] = []
        whole = Path(os.path.abspath(path))
        self._staging = whole.with_name(f".{whole.name}.{os.getpid()}.partial")
        if path.is_file():
            raise InvalidValue(
                "The output folder is a file",
                received=str(path),
                fix="Choose another --output, a folder",
            )
        if path.is_dir() and any(path.iterdir()) and not overwrite:
            raise InvalidValue(
                "The output folder is not empty",
                received=str(path),
                fix="Choose another --output, or add --overwrite to replace it",
            )

    def __enter__(self) -> Path:
        try:
            self._made = [folder for folder in self._staging.parents if not folder.exists()]
            self._staging.mkdir(parents=True)
        except OSError as error:
            raise InvalidValue(
                f"The output folder cannot be made: {error.strerror}",
                received=str(self.path),
                fix="Choose another --output, where you may write",
            ) from error
        return self._staging

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._publish()
        shutil.rmtree(self._staging, ignore_errors=True)
        if kind is not None:
            self._remove_parents()

    def _remove_parents(self) -> None:
        """A failure leaves no empty folders, but those that hold something by now."""
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _publish(self) -> None:
        old = self._staging.with_suffix(".old")
        if self.path.exists():
            self.path.rename(old)
        self._staging.rename(self.path)
        shutil.rmtree(old, ignore_errors=True)
