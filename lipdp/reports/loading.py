"""Finished runs, read back from their folders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from lipdp._version import __version__
from lipdp.errors import InvalidData
from lipdp.privacy import PrivacyLedger
from lipdp.results import RunResult
from lipdp.results.unfinished import (
    LEDGER_FILE,
    is_begun_by,
    unfinished_folder,
    unfinished_inside,
    unfinished_settings,
)

if TYPE_CHECKING:
    import pandas as pd

_RESULT = "result.json"
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
        * What runs cost together leaves out no unfinished run that lies among them.

    Raises:
        InvalidData: If a folder is missing or holds no finished run, a file of a run is broken, its
            epsilon is not that of its ledger, or an unfinished run spent what no result holds.
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
        _check_all_finished([folder])
        return [folder]
    # Names with a dot in front are runs that are being written.
    inside = [path.parent for path in folder.glob(f"*/{_RESULT}") if path.parent.name[0] != "."]
    if not inside:
        raise InvalidData(
            "This folder holds no finished run, neither itself nor directly inside",
            received=str(folder),
            fix="Give folders that lipdp train wrote, or a folder of such folders",
        )
    _check_all_finished(unfinished_inside(folder))
    return sorted(inside)


def _check_all_finished(outputs: Sequence[Path]) -> None:
    unseen = [str(output) for output in outputs if _spent_unseen(output)]
    if unseen:
        raise InvalidData(
            "Unfinished runs lie here and have spent, which a report of the finished ones would"
            " leave out of what the runs cost together",
            received=unseen,
            fix="Finish them with lipdp train --resume; or name the folders of the finished runs"
            " one by one, and let lipdp account runs add up all of them",
        )


def _spent_unseen(output: Path) -> bool:
    """Whether an unfinished run has spent what no result of it holds."""
    spent = unfinished_ledger(output)
    if spent is None:
        return False
    if not (output / _RESULT).is_file():
        return bool(spent.phases) or spent.unknown_history
    result = RunResult.load(output / _RESULT)
    if not result.spent.ledger or not is_begun_by(result, unfinished_settings(output)):
        return True
    seen = _ledger(result.spent.ledger, output / _RESULT)
    before = seen.phases, seen.unknown_history
    seen.merge(spent)
    return (seen.phases, seen.unknown_history) != before


def unfinished_ledger(output: Path) -> PrivacyLedger | None:
    """What the unfinished run of a folder has spent; None if it has spent nothing, or is not there.

    Raises:
        InvalidData: If its ledger was cut or edited.
    """
    path = unfinished_folder(output) / LEDGER_FILE
    if not path.is_file():
        return None
    return _ledger(path.read_text(encoding="utf-8", errors="replace"), path)


def _ledger(text: str, path: Path) -> PrivacyLedger:
    try:
        return PrivacyLedger.from_json(text)
    except InvalidData as error:
        raise InvalidData(
            f"The ledger of a run is broken: {error}",
            received=str(path),
            fix="Restore the file from a copy: nothing else says what the run spent",
        ) from error


def _load(folder: Path) -> LoadedRun:
    path = folder / _RESULT
    result = RunResult.load(path)
    _check_epsilon(result, path)
    return LoadedRun(folder, result, _history(folder / "history.csv"))


def _check_epsilon(result: RunResult, path: Path) -> None:
    spent = result.spent
    if not spent.ledger:
        return
    implied = _ledger(spent.ledger, path).epsilon(spent.delta, accountant=spent.accountant)
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
