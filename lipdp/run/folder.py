"""The folder of a run: complete or not there."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from lipdp.errors import InvalidData, InvalidValue
from lipdp.reports import not_private_reason
from lipdp.results import RunResult, epoch_line, opening_line
from lipdp.results.lines import decimals_up
from lipdp.run.outcome import Listener
from lipdp.training.ledger_file import remove_lock

#: All that a run writes into its folder.
RUN_FILES = (
    "config.toml",
    "history.csv",
    "model.keras",
    "report.html",
    "result.json",
    "schema.toml",
    "train.log",
)
_SHOWN = 5


def foreign_files(folder: Path) -> list[str]:
    """Some names, relative to a folder, of what no run wrote there; everything if it holds no run.

    Args:
        folder: Of a run, or of something else.
    """
    entries = sorted(folder.iterdir())
    if _is_run(folder):
        entries = [entry for entry in entries if not _is_of_run(entry)]
    return _names(folder, entries)


def check_folder_of(what: str, folder: Path, is_own: Callable[[Path], bool]) -> None:
    """Refuses a folder that holds something else than an earlier piece of the same work.

    Args:
        what: The work, such as "a sweep".
        folder: Where it would write; it need not be there.
        is_own: Whether the folder holds an earlier piece of it.

    Raises:
        InvalidValue: If it holds a run, or files and no such piece.
    """
    if not folder.is_dir():
        return
    entries = sorted(folder.iterdir())
    if not entries or (is_own(folder) and not _is_run(folder)):
        return
    held = "the folder of a run" if _is_run(folder) else f"not empty and not that of {what}"
    raise InvalidValue(
        f"The output folder {folder} is {held}",
        received=_names(folder, entries),
        fix=f"Choose another --output: a new or empty folder, or that of {what} to go on with",
    )


def _is_run(folder: Path) -> bool:
    try:
        RunResult.load(folder / "result.json")
    except InvalidData:
        return False
    return True


def _is_of_run(entry: Path) -> bool:
    return entry.name in RUN_FILES and entry.is_file() and not entry.is_symlink()


def _names(folder: Path, entries: list[Path]) -> list[str]:
    """A few of them; of a folder, a file inside says more than its name."""
    shown = [str(_inside(entry).relative_to(folder)) for entry in entries[:_SHOWN]]
    more = len(entries) - len(shown)
    return [*shown, f"and {more} more"] if more else shown


def _inside(entry: Path) -> Path:
    if entry.is_symlink() or not entry.is_dir():
        return entry
    files = (path for path in entry.rglob("*") if not path.is_dir())
    return next(itertools.islice(files, 1), entry)


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
        self._lock: FileLock | None = None
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
            if self._lock is not None:
                remove_lock(self._lock)
            if kind is not None:
                self._remove_parents()

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
                if match and not folder.is_symlink():
                    _remove_if_abandoned(folder, int(match[1]))


def _remove_if_abandoned(folder: Path, process: int) -> None:
    """By its number and by its lock: numbers come again, and differ between containers."""
    if process != os.getpid() and _is_alive(process):
        return
    lock = locked(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        remove_lock(lock)


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":
        return False  # There 0 is a signal that ends processes; the lock says it alone.
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # There is one that is not ours, or this is no number of a process.
        return True
    return True


def locked(folder: Path) -> FileLock | None:
    """Locks a folder by a file beside it, until ``remove_lock``; None if locked or not there."""
    if not folder.is_dir():
        return None
    lock = FileLock(folder.with_name(f"{folder.name}.lock"), thread_local=False)
    try:
        lock.acquire(blocking=False)
    except OSError:
        return None
    return lock


def _remove_run(folder: Path) -> None:
    """File by file: whatever came into the folder since it was looked at stays."""
    with contextlib.suppress(OSError):
        for name in RUN_FILES:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


class RunLog:
    """Listens to a run, writes it down with the time, and passes it on.

    Lines are kept in memory until the run has a place on disk, and reach it at once from then on.

    Guarantees:
        * No line holds a number that was measured on training rows without noise.

    Args:
        listener: Who else listens.
        radius: Of the certified accuracy that an epoch says.
    """

    def __init__(self, listener: Listener | None, radius: float) -> None:
        self._listener, self._radius = listener, radius
        self._path: Path | None = None
        self._waiting: list[str] = []
        self._total = 0

    def keep_in(self, path: Path) -> None:
        """From now on the lines go to a file, after those that are there already."""
        self._path = path
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self._append(line)

    def text(self) -> str:
        """All lines so far."""
        if self._path is None:
            return "".join(self._waiting)
        return self._path.read_text(encoding="utf-8")

    def note(self, text: str) -> None:
        """Writes a line that nobody else hears."""
        self._append(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}\n")

    def begin(self, output: Path, versions: Mapping[str, str], *, resumed: bool) -> None:
        """Writes where the run lies and what runs it."""
        self.note(", ".join(f"{name} {number}" for name, number in versions.items()))
        self.on_message(f"the run lies in {output}")
        if resumed:
            self.on_message("going on with an interrupted run")
        self.on_message("loading rows")

    def end(self, result: RunResult) -> None:
        """Writes what the run came to."""
        spent, test = result.spent, result.test
        self.note(
            f"epsilon {decimals_up(spent.epsilon)} at delta {spent.delta:g}, {spent.steps} steps"
        )
        self.note(f"test accuracy {test.accuracy:.4f} on {test.rows} held-out rows")
        if result.uncertified:
            self.note(result.uncertified)
        reason = not_private_reason(result)
        if reason:
            self.note(f"NOT PRIVATE: {reason}")
        self.note("interrupted: it can go on" if result.interrupted else "finished")

    def on_start(self, plan: dict[str, Any], total_epochs: int, steps_per_epoch: int) -> None:
        """Writes the length of the training."""
        self._total = total_epochs
        self.note(opening_line(plan, total_epochs, steps_per_epoch))
        if self._listener is not None:
            self._listener.on_start(plan, total_epochs, steps_per_epoch)

    def on_step(self, epoch: int, step: int) -> None:
        """Passes it on."""
        if self._listener is not None:
            self._listener.on_step(epoch, step)

    def on_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """Writes what the epoch reached, and at which radius it is certified."""
        logs = {**logs, "certified_radius": self._radius}
        self.note(epoch_line(epoch + 1, self._total, logs))
        if self._listener is not None:
            self._listener.on_epoch(epoch, logs)

    def on_message(self, text: str) -> None:
        """Writes the message."""
        self.note(text)
        if self._listener is not None:
            self._listener.on_message(text)

    def _append(self, line: str) -> None:
        if self._path is None:
            self._waiting.append(line)
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
