"""The folder of a run: complete or not there."""

from __future__ import annotations

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
        self._staging = path.with_name(f".{path.name}.{os.getpid()}.partial")
        if path.is_file():
            raise InvalidValue("The output folder is a file", received=str(path))
        if path.is_dir() and any(path.iterdir()) and not overwrite:
            raise InvalidValue(
                "The output folder is not empty",
                received=str(path),
                fix="Choose another --output, or add --overwrite to replace it",
            )

    def __enter__(self) -> Path:
        try:
            self._staging.mkdir(parents=True)
        except OSError as error:
            raise InvalidValue(
                f"The output folder cannot be made: {error}", received=str(self.path)
            ) from error
        return self._staging

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._publish()
        shutil.rmtree(self._staging, ignore_errors=True)

    def _publish(self) -> None:
        old = self._staging.with_suffix(".old")
        if self.path.exists():
            self.path.rename(old)
        self._staging.rename(self.path)
        shutil.rmtree(old, ignore_errors=True)
