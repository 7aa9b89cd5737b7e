"""The folder of a run: complete or not there."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shutil
from pathlib import Path

from lipdp.errors import InvalidValue
from lipdp.experiment.contents import RUN_FILES, foreign_files


class RunFolder:
    """Collects the files of a run beside its final place and moves them there at the end.

    Guarantees:
        * Of an earlier folder nothing is deleted but files that runs write, and of those only
          where there is nothing else.
        * A finished run whose place has been taken meanwhile is kept beside it.

    Args:
        path: The run's own folder.
        overwrite: Whether a run that is there already may be replaced.

    Raises:
        InvalidValue: If it holds files and may not be replaced, or is a file.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self.path, self._overwrite = path, overwrite
        self._made: list[Path] = []
        # A link stays one: what it leads to is replaced.
        self._whole = Path(os.path.realpath(path))
        self._staging = self._whole.with_name(f".{self._whole.name}.{os.getpid()}.partial")
        self._lock: int | None = None
        self._check(path)

    def __enter__(self) -> Path:
        self._remove_abandoned()
        try:
            self._made = [folder for folder in self._staging.parents if not folder.exists()]
            self._staging.mkdir(parents=True)
        except OSError as error:
            raise InvalidValue(
                f"The output folder cannot be made: {error.strerror}",
                received=str(self.path),
                fix="Choose another --output, where you may write",
            ) from error
        self._lock = locked(self._staging)
        return self._staging

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._publish()
        finally:
            shutil.rmtree(self._staging, ignore_errors=True)
            if kind is not None:
                self._remove_parents()
            if self._lock is not None:
                os.close(self._lock)

    def _check(self, folder: Path) -> None:
        """Refuses to take a folder's place where that would delete what shall stay."""
        if folder.is_file():
            raise InvalidValue(
                "The output folder is a file",
                received=str(self.path),
                fix="Choose another --output, a folder",
            )
        if not folder.is_dir() or not any(folder.iterdir()):
            return
        foreign = foreign_files(folder)
        if foreign and self._overwrite:
            raise InvalidValue(
                f"A run in {self.path} would delete files that no run wrote",
                received=foreign,
                fix="Choose another --output, or move these files out of that folder",
            )
        if not self._overwrite:
            other = "--overwrite" + (" replaces runs alone" if foreign else " replaces this run")
            raise InvalidValue(
                "The output folder is not empty",
                received=str(self.path),
                fix=f"Choose another --output; {other}",
            )

    def _remove_parents(self) -> None:
        """A failure leaves no empty folders, but those that hold something by now."""
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _publish(self) -> None:
        try:
            self._replace()
        except (InvalidValue, OSError) as error:
            raise InvalidValue(
                f"The run is finished, but could not be put in its place. {error}",
                fix=f"The finished run is in {self._keep_beside()}",
            ) from error
        self._remove_abandoned()

    def _replace(self) -> None:
        if not os.path.lexists(self._whole):
            self._staging.rename(self._whole)
            return
        # Moved away first: from then on nobody adds to it by its name.
        old = self._staging.with_suffix(".old")
        self._whole.rename(old)
        try:
            self._check(old)
            self._staging.rename(self._whole)
        except BaseException:
            old.rename(self._whole)
            raise
        _remove_run(old)

    def _keep_beside(self) -> Path:
        names = (self._whole.with_name(f"{self._whole.name}-{n}") for n in itertools.count(2))
        free = next(path for path in names if not os.path.lexists(path))
        self._staging.rename(free)
        return free

    def _remove_abandoned(self) -> None:
        """Removes what processes that were killed left of runs of this name."""
        name = re.compile(rf"\.{re.escape(self._whole.name)}\.([1-9][0-9]*)\.partial")
        with contextlib.suppress(OSError):
            for folder in self._staging.parent.iterdir():
                match = name.fullmatch(folder.name)
                if match and not folder.is_symlink() and _is_abandoned(folder, int(match[1])):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path, process: int) -> bool:
    """By its number and by its lock: numbers come again, and differ between containers."""
    if process != os.getpid() and _is_alive(process):
        return False
    lock = locked(folder)
    if lock is None:
        return False
    os.close(lock)
    return True


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # There is one that is not ours, or this is no number of a process.
        return True
    return True


def locked(folder: Path) -> int | None:
    """Locks a folder until the number returned is closed; None where it is locked or no folder."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def _remove_run(folder: Path) -> None:
    """File by file: whatever came into the folder since it was looked at stays."""
    with contextlib.suppress(OSError):
        for name in RUN_FILES:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
