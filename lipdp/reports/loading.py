"""Finished runs, read back from their folders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from lipdp._version import __version__
from lipdp.errors import InvalidData
from lipdp.privacy.spent import outputs_inside, read_ledger, runs_of
from lipdp.results import RunResult
from lipdp.results.run import RESULT_FILE

if TYPE_CHECKING:
    import pandas as pd


def check_all_counted(outputs: Sequence[Path]) -> None:
    """Refuses folders of runs that spent what no result holds.

    Raises:
        InvalidData: If there are any, or a file that would tell is broken.
    """
    uncounted = [str(output) for output in outputs if _has_uncounted(output)]
    if uncounted:
        raise InvalidData(
            "Unfinished or failed runs lie here and have spent, which a report of the finished"
            " ones would leave out of what the runs cost together",
            received=uncounted,
            fix="Finish what was stopped with lipdp train --resume; or name the folders of the"
            " finished runs one by one, and let lipdp account runs add up all of them",
        )


def finished_inside(folder: Path) -> list[Path]:
    """Folders of the finished runs directly inside; a dot in front marks what is being written."""
    found = (path.parent for path in folder.glob(f"*/{RESULT_FILE}"))
    return sorted(path for path in found if path.name[0] != ".")


def notes_on_unseen(runs: Sequence[Path], others: Iterable[Path] = ()) -> list[str]:
    """A note on what was spent beside the given runs and they do not count; empty if nothing was.

    Args:
        runs: Folders of the runs that are counted.
        others: Folders of runs that are not, finished or stopped.
    """
    places = dict.fromkeys(run.absolute().parent for run in runs)
    beside = [output for one in places for output in outputs_inside(one)]
    uncounted = [output for output in beside if _may_have_spent(output)]
    named = dict.fromkeys(str(path) for path in [*others, *uncounted])
    if not named:
        return []
    return [
        "Not counted here: other, unfinished or failed runs beside these, which have spent too. If"
        " they used the same rows, the price of having looked at all of them is higher; lipdp"
        f" account runs tells it. They are: {', '.join(named)}."
    ]


def _may_have_spent(output: Path) -> bool:
    try:
        return _has_uncounted(output)
    except InvalidData:  # What cannot be read may say anything.
        return True


def _has_uncounted(output: Path) -> bool:
    """Whether an unfinished or failed run has spent what no result of it holds."""
    return not all(run.in_result for run in runs_of(output))


#: What a report may show of an epoch; metrics of training rows are not among them.
_COLUMNS = ("epoch", "epsilon", "val_accuracy", "val_certified_accuracy")
#: A result holds epsilon with all digits; another machine may round the last ones otherwise.
_ROUNDING = 1e-9
#: Versions of the accountants prove bounds that are a little apart, each of them valid.
_OTHER_VERSION = 0.1


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

    Guarantees:
        * An epsilon is the one that the ledger of the run implies.
        * What the runs of a folder cost together leaves out no unfinished or failed one inside.

    Raises:
        InvalidData: If a folder is missing or holds no finished run, a file of a run is broken, its
            epsilon is not that of its ledger, or an unfinished or failed run spent what no result
            holds.
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
    check_all_counted([folder])
    if (folder / RESULT_FILE).is_file():
        return [folder]
    inside = finished_inside(folder)
    if not inside:
        raise InvalidData(
            "This folder holds no finished run, neither itself nor directly inside",
            received=str(folder),
            fix="Give folders that lipdp train wrote, or a folder of such folders",
        )
    check_all_counted(outputs_inside(folder))
    return inside


def _load(folder: Path) -> LoadedRun:
    path = folder / RESULT_FILE
    result = RunResult.load(path)
    _check_epsilon(result, path)
    return LoadedRun(folder, result, _history(folder / "history.csv"))


def _check_epsilon(result: RunResult, path: Path) -> None:
    spent = result.spent
    if not spent.ledger:
        return
    implied = read_ledger(spent.ledger, path).epsilon(spent.delta, accountant=spent.accountant)
    apart = _ROUNDING if _is_of_these_versions(result) else _OTHER_VERSION
    if not math.isclose(spent.epsilon, implied, rel_tol=apart):
        raise InvalidData(
            f"The result says epsilon {spent.epsilon!r} at delta {spent.delta!r}, but its ledger"
            f" implies {implied!r} by the accountant {spent.accountant}",
            received=str(path),
            fix="Restore the file from a copy, or write the report with the versions of lipdp and"
            " dp-accounting that wrote the run",
        )


def _is_of_these_versions(result: RunResult) -> bool:
    installed = {"lipdp": __version__, "dp-accounting": version("dp-accounting")}
    return all(result.versions.get(name) == here for name, here in installed.items())


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
