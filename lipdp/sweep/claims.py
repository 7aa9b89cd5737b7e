"""Which worker runs which trial."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING

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
    _lock: IO[str]

    def release(self) -> None:
        """Gives the right back."""
        self._lock.close()


def tickets(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that count, by number; one that machines began beyond the total does not."""
    return [t for t in study.get_trials(deepcopy=False) if not t.user_attrs.get(_SURPLUS)]


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
    return _abandoned(study, folder) or _new(study, total, folder, name)


def _abandoned(study: optuna.Study, folder: Path) -> Claim | None:
    import optuna

    for trial in tickets(study):
        if trial.state != optuna.trial.TrialState.RUNNING:
            continue
        token = trial.user_attrs.get(_CLAIM)
        if token is None:
            _drop_if_old(study, trial)
            continue
        lock = _lock(folder / f".{trial.number}.lock")
        if lock is None or lock.read() != token:
            continue
        if _state(study, trial) == optuna.trial.TrialState.RUNNING:
            mine = optuna.Trial(study, trial._trial_id)
            attempts = int(trial.user_attrs.get(_ATTEMPTS, 1)) + 1
            mine.set_user_attr(_ATTEMPTS, attempts)
            return Claim(mine, folder / trial.user_attrs[_FOLDER], attempts, lock)
    return None


def _new(study: optuna.Study, total: int, folder: Path, name: Callable[[int], str]) -> Claim | None:
    if len(tickets(study)) >= total:
        return None
    trial = study.ask()
    if sum(other.number < trial.number for other in tickets(study)) >= total:
        _drop(study, trial._trial_id, trial.number)
        return None
    folder.mkdir(parents=True, exist_ok=True)
    lock, token = _lock(folder / f".{trial.number}.lock", make=True), uuid.uuid4().hex
    if lock is None:
        return None
    lock.truncate(0)
    lock.write(token)
    lock.flush()
    os.fsync(lock.fileno())
    trial.set_user_attr(_FOLDER, name(trial.number))
    trial.set_user_attr(_CLAIM, token)
    return Claim(trial, folder / trial.user_attrs[_FOLDER], 1, lock)


def _lock(path: Path, *, make: bool = False) -> IO[str] | None:
    try:
        file = path.open("a+" if make else "r+", encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _state(study: optuna.Study, trial: FrozenTrial) -> optuna.trial.TrialState:
    return study._storage.get_trial(trial._trial_id).state


def _drop_if_old(study: optuna.Study, trial: FrozenTrial) -> None:
    started = trial.datetime_start
    if started is not None and datetime.now() - started > _UNCLAIMED:
        _drop(study, trial._trial_id, trial.number)


def _drop(study: optuna.Study, trial_id: int, number: int) -> None:
    """It never began, so it spent nothing."""
    import optuna

    study._storage.set_trial_user_attr(trial_id, _SURPLUS, True)
    study.tell(number, state=optuna.trial.TrialState.FAIL)
