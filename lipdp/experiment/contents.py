"""What lies in a folder that a command would write to, and whether it may."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from lipdp.errors import InvalidData, InvalidValue
from lipdp.results import RunResult

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
