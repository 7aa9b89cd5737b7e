"""What the runs of a folder have spent: finished, stopped, killed or failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lipdp.errors import InvalidData
from lipdp.privacy.ledger import PrivacyLedger
from lipdp.privacy.selection import merged
from lipdp.results.run import RESULT_FILE, RunResult
from lipdp.results.unfinished import (
    CONFIG_FILE,
    FAILED_LEDGER,
    LEDGER_FILE,
    is_begun_by,
    ledger_is_missing,
    unfinished_folder,
    unfinished_inside,
    unfinished_settings,
)

FINISHED, UNFINISHED, FAILED = "finished", "unfinished", "failed"


@dataclass(frozen=True, eq=False)
class SpentRun:
    """One run of a folder that has spent, as far as it came.

    Attributes:
        state: ``"finished"``, ``"unfinished"`` (stopped or killed, or one that trains now) or
            ``"failed"``.
        ledger: What it spent; None of a result that an early version wrote without one.
        config: Its settings; empty where a ledger alone was left, as by a failed trial.
        delta: What it was trained for, if that is known.
        in_result: Whether the result of the folder holds all that it spent.
    """

    state: str
    ledger: PrivacyLedger | None
    config: dict[str, Any] = field(default_factory=dict)
    delta: float | None = None
    in_result: bool = False


def runs_of(output: Path) -> list[SpentRun]:
    """The runs of one folder that have spent; empty if none has.

    A result of a run that was stopped and the unfinished run beside it are one run, if the same
    settings began both; with other settings they are two.

    Guarantees:
        * What was spent is never less than the files say: what cannot be read is refused
          (``test_spent.py::test_what_nobody_knows_is_refused``).

    Args:
        output: The run's own folder, there or not.

    Raises:
        InvalidData: If a ledger or result is missing, was cut or edited, or the ledger of an
            unfinished run is behind the result that the run wrote when it was stopped.
    """
    path, unfinished = output / RESULT_FILE, _unfinished(output)
    others = [] if unfinished is None else [unfinished]
    if not path.is_file():
        failed = read_ledger_file(output / FAILED_LEDGER)
        return [*others, *([SpentRun(FAILED, failed)] if _has_spent(failed) else [])]
    result = RunResult.load(path)
    text = result.spent.ledger
    known = read_ledger(text, path) if text else None
    finished = SpentRun(FINISHED, known, result.config, result.spent.delta, in_result=True)
    if unfinished is None or known is None or not is_begun_by(result, unfinished.config):
        return [finished, *others]
    if unfinished.ledger is None or not unfinished.ledger.holds(known):
        raise InvalidData(
            "The ledger of an unfinished run holds less than the result that the run wrote when it"
            " was stopped, so that nobody knows what it spent",
            received=str(unfinished_folder(output) / LEDGER_FILE),
            fix="Restore the file from a copy",
        )
    went_on = not known.holds(unfinished.ledger)
    return [
        SpentRun(UNFINISHED, unfinished.ledger, result.config, finished.delta, not went_on),
    ]


def spent_by(output: Path) -> PrivacyLedger | None:
    """All that the runs of one folder have spent together; None if that is nothing.

    Args:
        output: The run's own folder, there or not.

    Raises:
        InvalidData: If nobody knows, as of ``runs_of``.
    """
    ledgers = []
    for run in runs_of(output):
        if run.ledger is None:
            raise InvalidData(
                "The result of this run holds no ledger",
                received=str(output),
                fix="Train it again, or add its steps with lipdp account epsilon --phase",
            )
        ledgers.append(run.ledger)
    return merged(ledgers, ledgers[0].adjacency) if ledgers else None


def unfinished_ledger(output: Path) -> PrivacyLedger | None:
    """What the unfinished run of a folder has spent; None if there is none.

    Raises:
        InvalidData: If its ledger is missing, was cut or edited.
    """
    path = unfinished_folder(output) / LEDGER_FILE
    if ledger_is_missing(output):
        raise lost_error(path, "is missing", output)
    return read_ledger_file(path)


def lost_error(path: Path, what: str, output: Path) -> InvalidData:
    """The refusal of an unfinished run whose ledger is lost, with the way out.

    Args:
        path: The ledger file.
        what: What is wrong with it, such as ``"is missing"``.
        output: The run's own folder.
    """
    return InvalidData(
        f"Nobody knows what the unfinished run spent: its ledger file {what}",
        received=str(path),
        fix="Restore the file from a copy. If it is lost, `lipdp train --resume"
        f" {output} --ledger-lost` begins anew, and its statement says that an earlier run of"
        " unknown cost read these rows",
    )


def outputs_inside(folder: Path) -> list[Path]:
    """Folders, there or not, of runs directly inside that may have spent what no result holds."""
    failed = [path.parent for path in folder.glob(f"*/{FAILED_LEDGER}")]
    found = dict.fromkeys([*unfinished_inside(folder), *failed])
    return sorted(path for path in found if path.name[0] != ".")


def read_ledger(text: str, path: Path) -> PrivacyLedger:
    """A ledger from its text.

    Raises:
        InvalidData: With the path, if it was cut or edited.
    """
    try:
        return PrivacyLedger.from_json(text)
    except InvalidData as error:
        raise InvalidData(
            f"The ledger of a run is not readable: {error}",
            received=str(path),
            fix="Restore the file from a copy: nothing else says what the run spent",
        ) from error


def read_ledger_file(path: Path) -> PrivacyLedger | None:
    """The ledger in a file, or None if there is no file.

    Raises:
        InvalidData: If the file cannot be read, or was cut or edited.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidData(
            f"The ledger of a run is not readable: {error}",
            received=str(path),
            fix="Restore the file from a copy: nothing else says what the run spent",
        ) from error
    return read_ledger(text, path)


def _unfinished(output: Path) -> SpentRun | None:
    ledger = unfinished_ledger(output)
    if not _has_spent(ledger):
        return None
    # A trial that failed at once may have left its ledger alone.
    has_settings = (unfinished_folder(output) / CONFIG_FILE).exists()
    config = unfinished_settings(output) if has_settings else {}
    privacy = config.get("privacy")
    delta = privacy.get("delta") if isinstance(privacy, dict) else None
    return SpentRun(UNFINISHED, ledger, config, delta)


def _has_spent(ledger: PrivacyLedger | None) -> bool:
    return ledger is not None and bool(ledger.phases or ledger.unknown_history)
