"""What was spent near the runs of a report, and no result says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lipdp.errors import InvalidData
from lipdp.privacy import PrivacyLedger
from lipdp.results import RunResult
from lipdp.results.unfinished import (
    FAILED_LEDGER,
    LEDGER_FILE,
    is_begun_by,
    ledger_is_missing,
    unfinished_folder,
    unfinished_inside,
    unfinished_settings,
)

RESULT = "result.json"


def check_all_seen(outputs: Sequence[Path]) -> None:
    """Refuses folders of runs that spent what no result holds.

    Raises:
        InvalidData: If there are any, or a file that would tell is broken.
    """
    unseen = [str(output) for output in outputs if _spent_unseen(output)]
    if unseen:
        raise InvalidData(
            "Unfinished or failed runs lie here and have spent, which a report of the finished"
            " ones would leave out of what the runs cost together",
            received=unseen,
            fix="Finish what was stopped with lipdp train --resume; or name the folders of the"
            " finished runs one by one, and let lipdp account runs add up all of them",
        )


def finished_inside(folder: Path) -> list[Path]:
    """Folders of the finished runs directly inside; a dot in front marks what is being written."""
    found = (path.parent for path in folder.glob(f"*/{RESULT}"))
    return sorted(path for path in found if path.name[0] != ".")


def outputs_inside(folder: Path) -> list[Path]:
    """Folders, there or not, of runs directly inside that may have spent what no result holds."""
    failed = [path.parent for path in folder.glob(f"*/{FAILED_LEDGER}")]
    found = dict.fromkeys([*unfinished_inside(folder), *failed])
    return sorted(path for path in found if path.name[0] != ".")


def notes_on_unseen(runs: Sequence[Path], others: Iterable[Path] = ()) -> list[str]:
    """A note on what was spent beside the given runs and they do not count; empty if nothing was.

    Args:
        runs: Folders of the runs that are counted.
        others: Folders of runs that are not, finished or stopped.
    """
    places = dict.fromkeys(run.absolute().parent for run in runs)
    beside = [output for one in places for output in outputs_inside(one)]
    unseen = [output for output in beside if _may_have_spent(output)]
    named = dict.fromkeys(str(path) for path in [*others, *unseen])
    if not named:
        return []
    return [
        "Not counted here: other, unfinished or failed runs beside these, which have spent too. If"
        " they used the same rows, the price of having looked at all of them is higher; lipdp"
        f" account runs tells it. They are: {', '.join(named)}."
    ]


def _may_have_spent(output: Path) -> bool:
    try:
        return _spent_unseen(output)
    except InvalidData:  # What cannot be read may say anything.
        return True


def _spent_unseen(output: Path) -> bool:
    """Whether an unfinished or failed run has spent what no result of it holds."""
    spent, path = unfinished_ledger(output), output / RESULT
    if not path.is_file():
        return any(
            one.phases or one.unknown_history for one in (spent, failed_ledger(output)) if one
        )
    if spent is None:
        return False
    result = RunResult.load(path)
    if not result.spent.ledger or not is_begun_by(result, unfinished_settings(output)):
        return True
    seen = read_ledger(result.spent.ledger, path)
    before = seen.phases, seen.unknown_history
    seen.merge(spent)
    return (seen.phases, seen.unknown_history) != before


def unfinished_ledger(output: Path) -> PrivacyLedger | None:
    """What the unfinished run of a folder has spent; None if it has spent nothing, or is not there.

    Raises:
        InvalidData: If its ledger is missing, was cut or edited.
    """
    path = unfinished_folder(output) / LEDGER_FILE
    if ledger_is_missing(output):
        raise InvalidData(
            "An unfinished run lies here without its ledger, so that nobody knows what it spent",
            received=str(path),
            fix="Restore the file from a copy",
        )
    found = _read(path)
    return found if found is not None and (found.phases or found.unknown_history) else None


def failed_ledger(output: Path) -> PrivacyLedger | None:
    """What a trial spent that failed and left no result in its folder; None if there is none.

    Raises:
        InvalidData: If its ledger was cut or edited.
    """
    return None if (output / RESULT).is_file() else _read(output / FAILED_LEDGER)


def read_ledger(text: str, path: Path) -> PrivacyLedger:
    """A ledger from its text.

    Raises:
        InvalidData: With the path, if it was cut or edited.
    """
    try:
        return PrivacyLedger.from_json(text)
    except InvalidData as error:
        raise InvalidData(
            f"The ledger of a run is broken: {error}",
            received=str(path),
            fix="Restore the file from a copy: nothing else says what the run spent",
        ) from error


def _read(path: Path) -> PrivacyLedger | None:
    if not path.is_file():
        return None
    return read_ledger(path.read_text(encoding="utf-8", errors="replace"), path)
