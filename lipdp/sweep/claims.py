"""Which worker runs which trial.

A lock tells a dead worker from a slow one. Optuna's heartbeat goes by the clock: it fails trials of
machines that slept, and what it queues again is another trial, without the ledger of the first.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

_CLAIM, _FOLDER, _ATTEMPTS, _SURPLUS = "claim", "folder", "attempts", "surplus"
#: A trial that nobody claimed for so long never will be: its worker died between two lines.
_UNCLAIMED = timedelta(minutes=1)
#: A trial whose worker dies (for want of memory, say) is begun so often.
MOST_ATTEMPTS = 3


@dataclass(frozen=True)
class Claim:
    """The right to run one trial.

    Attributes:
        trial: The trial.
        folder: Of its run.
        attempts: How often it was begun, this time included.
    """

    trial: optuna.Trial
    folder: Path
    attempts: int
    _lock: FileLock

    def release(self) -> None:
        """Gives the right back."""
        self._lock.release()


def counted_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that count, by number; one that was dropped before it began does not."""
    return [t for t in study.get_trials(deepcopy=False) if not _never_begins(t)]


def is_claimed(trial: FrozenTrial) -> bool:
    """Whether a worker took the trial, so that it may have spent something."""
    return _CLAIM in trial.user_attrs


def is_here(trial: FrozenTrial, folder: Path) -> bool:
    """Whether the trial is, or was, run in this folder, which then holds its ledger."""
    try:
        token = _token_path(folder, trial.number).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return is_claimed(trial) and token == trial.user_attrs[_CLAIM]


def claim(
    study: optuna.Study, total: int, folder: Path, name: Callable[[int], str]
) -> Claim | None:
    """A trial to run: one whose worker died on this machine, else a new one; None if all is done.

    A claim is a lock on a file, which ends with its process.

    Guarantees:
        * No two processes run one trial.
        * At most ``total`` trials are run, however many machines take part.

    Args:
        study: The study.
        total: How many trials are wanted in all.
        folder: Of the runs.
        name: Of the run of a trial, from its number.
    """
    drop_unclaimed(study)
    return _abandoned(study, folder) or _new(study, total, folder, name)


def drop_unclaimed(study: optuna.Study) -> None:
    """Drops trials whose worker died before it claimed them: they spent nothing.

    Guarantees:
        * A trial that is dropped is never run, whatever the clocks of machines say: a worker claims
          and then looks for the mark, this marks and then looks for the claim, so one gives way.
    """
    for trial in counted_trials(study):
        if _is_running(trial) and not is_claimed(trial) and _age(trial) > _UNCLAIMED:
            _drop_unless_claimed(study, trial._trial_id)


def _drop_unless_claimed(study: optuna.Study, trial_id: int) -> None:
    if is_claimed(_now(study, trial_id)):
        return
    _mark(study, trial_id)
    if not is_claimed(_now(study, trial_id)):
        _drop(study, trial_id)


def _abandoned(study: optuna.Study, folder: Path) -> Claim | None:
    import optuna

    for trial in counted_trials(study):
        if not _is_running(trial) or not is_here(trial, folder):
            continue
        lock = _lock(_lock_path(folder, trial.number))
        if lock is None:
            continue
        now = _now(study, trial._trial_id)
        if _gave_way(now):
            _drop(study, trial._trial_id)
        elif _is_running(now):
            mine = optuna.Trial(study, trial._trial_id)
            attempts = int(now.user_attrs.get(_ATTEMPTS, 1)) + 1
            mine.set_user_attr(_ATTEMPTS, attempts)
            return Claim(mine, folder / now.user_attrs[_FOLDER], attempts, lock)
        lock.release()
    return None


def _new(study: optuna.Study, total: int, folder: Path, name: Callable[[int], str]) -> Claim | None:
    while len(counted_trials(study)) < total:
        trial = study.ask()
        if sum(other.number < trial.number for other in counted_trials(study)) >= total:
            _drop(study, trial._trial_id)
            return None
        mine = _claimed(study, trial, folder, name)
        if mine is not None:
            return mine
        _drop(study, trial._trial_id)
    return None


def _claimed(
    study: optuna.Study, trial: optuna.Trial, folder: Path, name: Callable[[int], str]
) -> Claim | None:
    """None if another worker took this one for dead and dropped the trial."""
    from optuna.exceptions import UpdateFinishedTrialError

    folder.mkdir(parents=True, exist_ok=True)
    lock, token = _lock(_lock_path(folder, trial.number)), uuid.uuid4().hex
    if lock is None:
        return None
    with _token_path(folder, trial.number).open("w", encoding="utf-8") as file:
        file.write(token)
        file.flush()
        os.fsync(file.fileno())
    try:
        trial.set_user_attr(_FOLDER, name(trial.number))
        trial.set_user_attr(_CLAIM, token)
        if not _gave_way(_now(study, trial._trial_id)):
            trial.set_user_attr(_ATTEMPTS, 1)
            return Claim(trial, folder / trial.user_attrs[_FOLDER], 1, lock)
    except UpdateFinishedTrialError:
        pass  # Dropped before it was claimed.
    lock.release()
    return None


def _lock_path(folder: Path, number: int) -> Path:
    return folder / f".{number}.lock"


def _token_path(folder: Path, number: int) -> Path:
    # A file of its own: locking a file may empty it, and Windows lets nobody read a locked one.
    return folder / f".{number}.claim"


def _lock(path: Path) -> FileLock | None:
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def _now(study: optuna.Study, trial_id: int) -> FrozenTrial:
    return study._storage.get_trial(trial_id)


def _is_running(trial: FrozenTrial) -> bool:
    return trial.state.name == "RUNNING"


def _age(trial: FrozenTrial) -> timedelta:
    # The storage keeps UTC and tells local time, which jumps twice a year.
    started = trial.datetime_start
    return timedelta(0) if started is None else datetime.now(UTC) - started.astimezone(UTC)


def _gave_way(trial: FrozenTrial) -> bool:
    """Whether it was marked before it began; then its worker does not begin it."""
    return bool(trial.user_attrs.get(_SURPLUS)) and _ATTEMPTS not in trial.user_attrs


def _never_begins(trial: FrozenTrial) -> bool:
    # Claimed and marked at once it may have begun this moment, unless it has ended.
    return _gave_way(trial) and (not is_claimed(trial) or trial.state.name == "FAIL")


def _mark(study: optuna.Study, trial_id: int) -> None:
    from optuna.exceptions import UpdateFinishedTrialError

    with contextlib.suppress(UpdateFinishedTrialError):
        study._storage.set_trial_user_attr(trial_id, _SURPLUS, True)


def _drop(study: optuna.Study, trial_id: int) -> None:
    """It never began, so it spent nothing."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    _mark(study, trial_id)
    with contextlib.suppress(UpdateFinishedTrialError):
        study._storage.set_trial_state_values(trial_id, TrialState.FAIL)
