"""Finished runs, read back from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lipdp.errors import InvalidData
from lipdp.results import RunResult

if TYPE_CHECKING:
    import pandas as pd

_RESULT = "result.json"
#: What a report may show of an epoch; metrics of training rows are not among them.
_COLUMNS = ("epoch", "epsilon", "val_accuracy", "val_certified_accuracy")


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A finished run.

    Attributes:
        folder: Where it lies, as it was given.
        result: What ``result.json`` holds.
        history: One row an epoch with ``epoch`` and any of ``epsilon``, ``val_accuracy``,
            ``val_certified_accuracy``; empty if the run left none.
    """

    folder: Path
    result: RunResult
    history: pd.DataFrame


def load_runs(folders: Sequence[Path]) -> list[LoadedRun]:
    """Reads runs; of a folder that is not a run itself, all runs directly inside.

    A run that is reached twice is read once.

    Raises:
        InvalidData: If a folder is missing or holds no finished run, or a file of a run is broken.
    """
    found: dict[Path, Path] = {}
    for folder in folders:
        for run in _run_folders(Path(folder)):
            found.setdefault(run.resolve(), run)
    if not found:
        raise InvalidData(
            "There are no runs to report", received=[], fix="Give folders that lipdp train wrote"
        )
    return [_load(folder) for folder in found.values()]


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InvalidData(
            "There is no such folder", received=str(folder), fix="Give the folder of a run"
        )
    if (folder / _RESULT).is_file():
        return [folder]
    # Names with a dot in front are runs that are being written.
    inside = [path.parent for path in folder.glob(f"*/{_RESULT}") if path.parent.name[0] != "."]
    if not inside:
        raise InvalidData(
            "This folder holds no finished run, neither itself nor directly inside",
            received=str(folder),
            fix="Give folders that lipdp train wrote, or a folder of such folders",
        )
    return sorted(inside)


def _load(folder: Path) -> LoadedRun:
    return LoadedRun(folder, RunResult.load(folder / _RESULT), _history(folder / "history.csv"))


def _history(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        return pd.DataFrame()
    try:
        table = pd.read_csv(path)
        kept = [name for name in _COLUMNS if name in table]
        return table[kept].astype(float)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except (OSError, ValueError) as error:
        raise InvalidData(
            f"The history of a run cannot be read ({error})",
            received=str(path),
            fix="Restore the file, or remove it to report without learning curves",
        ) from None
