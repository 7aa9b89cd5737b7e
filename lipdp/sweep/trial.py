"""One trial: a run with settings of its own, its ledger kept however it ends."""

from __future__ import annotations

import shutil
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipdp.config import RunConfig
from lipdp.errors import InvalidData, InvalidState, LipdpError
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.spent import spent_by
from lipdp.results import RunResult
from lipdp.results.unfinished import FAILED_LEDGER
from lipdp.run.callbacks import board_of_run
from lipdp.run.unfinished import forget
from lipdp.sweep.claims import MOST_ATTEMPTS, Claim
from lipdp.sweep.space import Parameters, suggest, trial_config
from lipdp.sweep.study import Settings
from lipdp.training.ledger_file import LedgerFile

if TYPE_CHECKING:
    import optuna

#: What trains: ``lipdp.run.train``, or a stand-in for it.
Trainer = Callable[..., Any]

#: Held-out measure of an epoch by which Hyperband stops trials; epochs have no AUROC.
_OF_AN_EPOCH = {"accuracy": "val_accuracy", "certified_accuracy": "val_certified_accuracy"}
_LOGS = "The logs of the sweep, on the machine that ran the trial, say more"


class Watch:
    """Tells the study about epochs, and stops the training of a trial that fell behind.

    Attributes:
        wanted: Whether the training shall stop after its next step.
    """

    def __init__(self, trial: optuna.Trial, metric: str, prunes: bool) -> None:
        self._trial, self._prunes = trial, prunes
        self._key = _OF_AN_EPOCH.get(metric)
        self.wanted = False

    def on_start(self, plan: dict[str, Any], total_epochs: int, steps_per_epoch: int) -> None:
        """Keeps delta: a trial that fails has no result that says it."""
        self._trial.set_user_attr("delta", plan["delta"])

    def on_step(self, epoch: int, step: int) -> None:
        """Says nothing."""

    def on_epoch(self, epoch: int, logs: dict[str, float]) -> None:
        """Reports the epoch."""
        value = None if self._key is None else logs.get(self._key)
        if value is not None:
            self._trial.report(value, epoch + 1)
            self.wanted = self._prunes and self._trial.should_prune()

    def on_message(self, text: str) -> None:
        """Says nothing."""

    def watching(self) -> AbstractContextManager[None]:
        """Nothing to prepare."""
        return nullcontext()


def run_trial(study: optuna.Study, claim: Claim, settings: Settings, train: Trainer) -> None:
    """Runs a trial to its end: finished, pruned, or failed with its reason.

    Guarantees:
        * What it spent is in the storage before it counts as ended, and on disk before it is spent.

    Raises:
        KeyboardInterrupt: As it came; the trial can go on later.
    """
    trial = claim.trial
    parameters = suggest(trial, settings.sweep.space)
    try:
        config = _config(claim, settings, parameters)
        result = _result(claim, config, settings, train)
        value = measured(result, settings.sweep.metric)
    except Exception as error:  # A sweep of a night goes on whatever one trial meets.
        _keep_failure(study, claim, settings, error)
    else:
        _keep_result(study, claim, result, value)
    _tidy(claim.folder)


def _config(claim: Claim, settings: Settings, parameters: Parameters) -> RunConfig:
    config = trial_config(settings.config, settings.sweep, parameters)
    board = board_of_run(config.training.tensorboard, claim.folder.name)
    training = config.training.model_copy(update={"tensorboard": board})
    return config.model_copy(update={"training": training})


def _result(claim: Claim, config: RunConfig, settings: Settings, train: Trainer) -> RunResult:
    earlier = _ended(claim.folder, config)
    if earlier is not None:
        return earlier
    if claim.attempts > MOST_ATTEMPTS:
        raise InvalidState(
            f"The process that ran the trial ended without a word {MOST_ATTEMPTS} times",
            fix="Look into the logs of the sweep; the memory may be too small for these settings",
        )
    watch = Watch(claim.trial, settings.sweep.metric, settings.prunes)
    found: RunResult = train(config, claim.folder, listener=watch, stopper=watch).result
    return found


def _ended(folder: Path, config: RunConfig) -> RunResult | None:
    """The result of a run that ended although its worker died before it said so."""
    if not (folder / "result.json").is_file():
        return None
    result = RunResult.load(folder / "result.json")
    if result.config != config.model_dump(mode="json"):
        raise InvalidState(
            "The folder of the trial holds a run with other settings",
            received=str(folder),
            fix="Choose another --output",
        )
    return result


def _tidy(folder: Path) -> None:
    """Removes what interruptions left; what was spent is in the storage."""
    forget(folder)
    for partial in folder.parent.glob(f".{folder.name}.*.partial"):
        shutil.rmtree(partial, ignore_errors=True)
    for lock in folder.parent.glob(f".{folder.name}.*.lock"):
        lock.unlink(missing_ok=True)


def measured(result: RunResult, metric: str) -> float:
    """The measure that chooses, on the validation rows.

    Raises:
        InvalidData: If these rows do not define it.
    """
    certified = result.certified[0].accuracy if result.certified else None
    known = {"accuracy": result.test.accuracy, "auroc": result.test.auroc}
    value = {**known, "certified_accuracy": certified}[metric]
    if value is None:
        raise InvalidData(
            f"The validation rows do not define {metric}",
            received=result.uncertified or result.test.rows,
        )
    return value


def _keep_result(study: optuna.Study, claim: Claim, result: RunResult, value: float) -> None:
    from optuna.trial import TrialState

    facts = {
        "ledger": result.spent.ledger,
        "delta": result.spent.delta,
        "steps": result.spent.steps,
        "seconds": result.seconds,
        "accuracy": result.test.accuracy,
        "auroc": result.test.auroc,
        "certified": [c.model_dump(mode="json") for c in result.certified],
    }
    for key, fact in facts.items():
        claim.trial.set_user_attr(key, fact)
    if result.interrupted:
        study.tell(claim.trial.number, state=TrialState.PRUNED)
    else:
        study.tell(claim.trial.number, value)


def _keep_failure(study: optuna.Study, claim: Claim, settings: Settings, error: Exception) -> None:
    from optuna.trial import TrialState

    _log(claim.trial.number, error)
    ledger = spent_in(claim.folder, settings.config.privacy.adjacency)
    if ledger is not None:
        LedgerFile(claim.folder / FAILED_LEDGER).write(ledger)
        claim.trial.set_user_attr("ledger", ledger.to_json())
    claim.trial.set_user_attr("reason", _reason(error)[:1000])
    study.tell(claim.trial.number, state=TrialState.FAIL)


def _log(number: int, error: Exception) -> None:
    """The whole error, into the log on this machine."""
    sys.stderr.write(f"Trial {number} failed:\n")
    traceback.print_exception(error, file=sys.stderr)


def _reason(error: Exception) -> str:
    """Words for the storage, which others read: none that may quote a row."""
    if isinstance(error, InvalidData):
        parts = ["The data, or a file of the run, cannot be used", _LOGS]
    elif isinstance(error, LipdpError):
        parts = [error.what, error.fix]
    else:
        parts = [f"Training ended with {type(error).__name__}", _LOGS]
    return " ".join(part.rstrip(".") + "." for part in parts if part)


def spent_in(folder: Path, adjacency: str) -> PrivacyLedger | None:
    """What the folder of a trial has spent; None if nothing.

    A record that cannot be read stands for everything.

    Args:
        folder: Of the run.
        adjacency: Relation that the run counts under.
    """
    try:
        return spent_by(folder)
    except InvalidData:
        return unknown_ledger(adjacency)


def unknown_ledger(adjacency: str) -> PrivacyLedger:
    """The ledger of what nobody can say: it stands for everything."""
    ledger = PrivacyLedger(adjacency)
    ledger.mark_unknown()
    return ledger
