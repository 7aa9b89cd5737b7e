"""What a sweep leaves behind: ``sweep.json``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipdp.privacy import PrivacyLedger
from lipdp.results.run import Certified, JsonFloat, Record, TestMetrics
from lipdp.sweep.claims import counted_trials, is_claimed, is_here
from lipdp.sweep.space import values
from lipdp.sweep.study import settings_in
from lipdp.sweep.trial import spent_in, unknown_ledger

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

_STATES = {
    "COMPLETE": "finished",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "running",
}
#: What the storage holds of a trial that its own worker ended; others were ended by hand, unheard.
_TOLD = {"COMPLETE": "ledger", "PRUNED": "ledger", "FAIL": "reason"}


class TrialRecord(Record):
    """One trial.

    ``value`` is the measure that chooses, on the validation rows; of a pruned trial the last one
    reported. ``state`` is "finished", "pruned", "failed" or "running" (also: interrupted, so that
    it can go on). ``ledger`` is the text of what it spent so far, empty if it spent nothing; of a
    trial that another machine runs, or ran until it died, it says that the history is unknown.
    """

    number: int
    run: str
    state: str
    parameters: dict[str, Any]
    value: JsonFloat | None = None
    epsilon: JsonFloat | None = None
    delta: float | None = None
    steps: int = 0
    seconds: float | None = None
    accuracy: float | None = None
    auroc: float | None = None
    certified: list[Certified] = []
    reason: str = ""
    ledger: str = ""


class RepeatCost(Record):
    """The best of a random number of independent trials, published alone.

    ``applies`` says whether this sweep was one; otherwise epsilon is what it would have cost.
    """

    epsilon: JsonFloat
    applies: bool
    mean: float
    shape: float
    words: str


class Choosing(Record):
    """What choosing cost, at one delta.

    Attributes:
        alone: Epsilon of the chosen run, as if no other had been tried.
        together: Epsilon of all trials, whatever is published of them.
        repeat: The best of a random number of trials; None without a finished trial.
        epsilon: What may be claimed of the chosen run, published alone.
        final: Whether every trial has ended, so that nothing will be added.
        unknown_trials: Numbers of the trials of which nobody here knows what they spent; any makes
            ``together`` infinite.
    """

    delta: float
    accountant: str
    adjacency: str
    alone: JsonFloat | None
    together: JsonFloat
    counted_trials: int
    repeat: RepeatCost | None
    epsilon: JsonFloat
    final: bool
    not_private: str
    not_covered: list[str]
    unknown_trials: list[int] = []


class Best(Record):
    """The chosen run: its folder, what chose it, and what it reaches on the test rows.

    ``test`` is None where the run lies on another machine.
    """

    run: str
    number: int
    value: float
    parameters: dict[str, Any]
    test: TestMetrics | None = None
    certified: list[Certified] = []


class SweepResult(Record):
    """Everything in ``sweep.json``."""

    study: str
    metric: str
    mode: str
    config: dict[str, Any]
    sweep: dict[str, Any]
    trials: list[TrialRecord]
    best: Best | None
    choosing: Choosing | None

    def save(self, path: Path) -> None:
        """Writes the result as JSON, whole or not at all."""
        write_whole(path, self.model_dump_json(indent=2) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a file, whole or not at all: a process that dies leaves what was there."""
    fresh = path.with_name(f".{path.name}.tmp")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def trial_records(study: optuna.Study, folder: Path) -> list[TrialRecord]:
    """All trials that count, by number.

    Args:
        study: The study.
        folder: Of the runs on this machine, which hold what running trials have spent.
    """
    adjacency = settings_in(study).config.privacy.adjacency
    return [_record(trial, _spent(trial, folder, adjacency)) for trial in counted_trials(study)]


def chosen(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """The finished trial of the largest value, the earliest of equals."""
    finished = [t for t in trials if t.state == "finished"]
    return max(finished, key=lambda t: (t.value or 0.0, -t.number), default=None)


def _spent(trial: FrozenTrial, folder: Path, adjacency: str) -> str:
    known = trial.user_attrs
    if _TOLD.get(trial.state.name) in known:
        return str(known.get("ledger", ""))
    if not is_claimed(trial):
        return ""
    if not is_here(trial, folder):
        # Another machine spends, or has spent, what only its own files say.
        return unknown_ledger(adjacency).to_json()
    spent = spent_in(folder / known["folder"], adjacency)
    return "" if spent is None else spent.to_json()


def _record(trial: FrozenTrial, ledger: str) -> TrialRecord:
    known = dict(trial.user_attrs)
    facts = {key: known[key] for key in ("delta", "seconds", "accuracy", "auroc") if key in known}
    return TrialRecord(
        number=trial.number,
        run=known.get("folder", ""),
        state=_STATES[trial.state.name],
        parameters=values(trial.params),
        value=_value(trial),
        steps=PrivacyLedger.from_json(ledger).steps if ledger else 0,
        certified=[Certified(**one) for one in known.get("certified", [])],
        reason=known.get("reason", ""),
        ledger=ledger,
        **facts,
    )


def _value(trial: FrozenTrial) -> float | None:
    if trial.value is not None:
        return trial.value
    reported = trial.intermediate_values
    return reported[max(reported)] if reported else None
