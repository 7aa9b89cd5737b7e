"""A sweep: many runs of one configuration, and the best of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lipdp.config import RunConfig
from lipdp.errors import InvalidConfig, InvalidState, InvalidValue
from lipdp.privacy import PrivacyLedger
from lipdp.run.callbacks import check_board_of_runs
from lipdp.sweep.claims import counted_trials, drop_unclaimed
from lipdp.sweep.costs import claim_of_chosen, cost_notes, cost_of_choosing, planned_ledgers
from lipdp.sweep.records import (
    Best,
    SweepResult,
    TrialRecord,
    chosen,
    trial_records,
    write_whole,
)
from lipdp.sweep.space import check_space
from lipdp.sweep.study import Place, Settings, drawn_number, open_study
from lipdp.sweep.workers import Workers

if TYPE_CHECKING:
    import optuna

_ENDED = ("COMPLETE", "PRUNED", "FAIL")
#: States of trials whose runs have a result.
_WHOLE = ("finished", "pruned")
#: In the folder of the chosen run.
CLAIM_FILE = "guarantee.txt"
#: In the folder of the sweep; both say what all trials cost.
_RESULT, _REPORT = "sweep.json", "report.html"
_POLL_S = 0.5


@dataclass(frozen=True)
class Progress:
    """A trial ended.

    Attributes:
        trial: The trial.
        ended: How many have.
        total: How many are wanted.
        seconds_left: By the pace so far.
    """

    trial: TrialRecord
    ended: int
    total: int
    seconds_left: float


Hearer = Callable[[Progress], None]


def sweep(
    config: RunConfig,
    output: Path,
    *,
    trials: int | None = None,
    random_trials: float | None = None,
    jobs: int = 1,
    storage: str | None = None,
    study: str | None = None,
    hearer: Hearer | None = None,
) -> SweepResult:
    """Tries settings, chooses the best run by its validation rows, and says what choosing cost.

    The same call goes on with a sweep that was interrupted, and adds trials if ``trials`` grew;
    what an earlier call said of the cost is removed before a trial begins.
    Several machines take part by calling it with one ``storage`` and ``study``.

    Args:
        config: The run that trials vary, with its section ``sweep``.
        output: Folder of the sweep: ``sweep.json``, ``trials/NNN``, ``report.html``.
        trials: How many in all, failed and pruned ones included.
        random_trials: Instead, the mean of a secret random number of them; settings are then drawn
            at random, nothing is pruned, and only the chosen run may be published.
        jobs: Processes on this machine.
        storage: SQLAlchemy address; by default an SQLite file in ``output``.
        study: Name in the storage; by default that of ``output``.
        hearer: Hears of each trial that ends.

    Raises:
        LipdpError: For bad input, before the first trial.
        InvalidState: If a worker ended unexpectedly, when what there is has been written.
        KeyboardInterrupt: As it came, when what there is has been written.
    """
    settings = _settings(config, trials, random_trials, jobs)
    whole = output.resolve()
    address = storage or f"sqlite:///{whole / 'study.db'}"
    place = Place(address, study or whole.name, str(whole))
    check_board_of_runs(config.training.tensorboard, place.folder)
    check_space(config, settings.sweep)
    planned = planned_ledgers(settings)
    whole.mkdir(parents=True, exist_ok=True)
    opened = open_study(place, settings)
    total = drawn_number(opened) if trials is None else trials
    place = replace(place, trials=total)
    failure: BaseException | None = None
    try:
        _run(opened, place, jobs, hearer)
    except (KeyboardInterrupt, InvalidState) as error:
        failure = error
    result = _result(opened, place, settings, planned, measure=failure is None)
    result.save(whole / _RESULT)
    _mark_chosen(result, place)
    if failure is not None:
        raise failure
    _report(result, place)
    return result


def _settings(
    config: RunConfig, trials: int | None, random_trials: float | None, jobs: int
) -> Settings:
    if config.sweep is None:
        raise InvalidConfig(
            "The configuration has no section [sweep], so there is nothing to try",
            fix='Add [sweep.space] with lines such as "optimizer.learning_rate" = '
            "{ low = 0.01, high = 4.0, log = true }",
        )
    _check_numbers(trials, random_trials, jobs)
    if config.training.method != "clipless":
        # The others keep no ledger on disk: what a killed trial spent, nobody would count.
        raise InvalidConfig(
            "A sweep tries settings of this package's own training alone",
            received=config.training.method,
            fix="Leave out training.method; lipdp compare sets methods side by side",
        )
    if random_trials is not None and config.privacy.seed is not None:
        raise InvalidConfig(
            "With a seed nothing is private, however the number of trials is drawn",
            received=config.privacy.seed,
            fix="Take out privacy.seed, or use --trials",
        )
    return Settings(config.model_copy(update={"sweep": None}), config.sweep, random_trials)


def _check_numbers(trials: int | None, random_trials: float | None, jobs: int) -> None:
    if (trials is None) == (random_trials is None):
        raise InvalidValue(
            "A sweep needs a number of trials, or the mean of a random one",
            received={"trials": trials, "random_trials": random_trials},
            fix="Give one of --trials and --random-trials",
        )
    given = {"--trials": trials, "--random-trials": random_trials, "--jobs": jobs}
    for name, value in given.items():
        if value is not None and not 1 <= value < math.inf:
            raise InvalidValue(f"{name} must be at least 1", received=value, fix="Raise it")


def _run(study: optuna.Study, place: Place, jobs: int, hearer: Hearer | None) -> None:
    """Starts the workers and tells of each trial that ends."""
    drop_unclaimed(study)
    seen = {t.number for t in _ended(study)}
    if len(seen) >= place.trials:
        return
    _withdraw(place)
    began, before = time.monotonic(), len(seen)
    workers = Workers(place, min(jobs, place.trials - before))
    try:
        alive = True
        while alive:
            time.sleep(_POLL_S)
            alive = workers.alive
            fresh = [t for t in _ended(study) if t.number not in seen]
            for trial in fresh:
                seen.add(trial.number)
                pace = (time.monotonic() - began) / (len(seen) - before)
                _tell(study, place, trial.number, len(seen), pace, hearer)
    except BaseException:
        workers.stop()
        raise
    workers.close()
    ended = len(_ended(study))
    if workers.crashed and ended < place.trials:
        raise InvalidState(
            f"A worker ended unexpectedly; {ended} of {place.trials} trials have ended",
            fix=f"Look into {place.output}/logs; the same command goes on",
        )


def _withdraw(place: Place) -> None:
    """Removes what an earlier command said of the cost, which is too little once trials begin.

    A process that is killed cannot do so later, and what is spent from here on nobody knows yet.
    """
    from lipdp.reports import pareto_files

    whole = Path(place.output)
    guarantees = place.folder.glob(f"*/{CLAIM_FILE}")
    for path in (*guarantees, whole / _RESULT, *pareto_files(whole / _REPORT)):
        path.unlink(missing_ok=True)


def _tell(
    study: optuna.Study, place: Place, number: int, ended: int, pace: float, hearer: Hearer | None
) -> None:
    if hearer is None:
        return
    (trial,) = [t for t in trial_records(study, place.folder) if t.number == number]
    left = pace * max(0, place.trials - ended)
    hearer(Progress(trial, ended, place.trials, left))


def _ended(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return [t for t in counted_trials(study) if t.state.name in _ENDED]


def _result(
    study: optuna.Study,
    place: Place,
    settings: Settings,
    planned: Sequence[PrivacyLedger],
    *,
    measure: bool,
) -> SweepResult:
    trials = trial_records(study, place.folder)
    complete = sum(t.state != "running" for t in trials) >= place.trials
    return SweepResult(
        study=place.study,
        metric=settings.sweep.metric,
        mode="search" if settings.mean is None else "random number of trials",
        config=settings.config.model_dump(mode="json"),
        sweep=settings.sweep.model_dump(mode="json"),
        trials=trials,
        best=_best(trials, place, measure=measure),
        choosing=cost_of_choosing(settings, trials, complete=complete, planned=planned),
    )


def _best(trials: Sequence[TrialRecord], place: Place, *, measure: bool) -> Best | None:
    trial = chosen(trials)
    if trial is None or trial.value is None:
        return None
    best = Best(run=trial.run, number=trial.number, value=trial.value, parameters=trial.parameters)
    folder = place.folder / trial.run
    if not measure or not (folder / "model.keras").is_file():
        return best
    from lipdp.run.evaluate import measure_on_test_rows

    test, certified = measure_on_test_rows(folder)
    return best.model_copy(update={"test": test, "certified": certified})


def _mark_chosen(result: SweepResult, place: Place) -> None:
    """The chosen run carries its own guarantee, and no other run does.

    While trials have not ended they go on spending, so what was spent by now is no guarantee.
    """
    cost = result.choosing
    for trial in result.trials:
        path = place.folder / trial.run / CLAIM_FILE
        is_chosen = result.best is not None and trial.number == result.best.number
        if is_chosen and cost is not None and cost.final and path.parent.is_dir():
            write_whole(path, claim_of_chosen(cost) + "\n")
        elif trial.run:
            path.unlink(missing_ok=True)


def _report(result: SweepResult, place: Place) -> None:
    """Privacy and accuracy of the runs on this machine; pruned ones cost too."""
    from lipdp.reports import load_runs, write_pareto_report

    runs = [place.folder / t.run for t in result.trials if t.state in _WHOLE]
    here = [folder for folder in runs if (folder / "result.json").is_file()]
    if here:
        notes = [] if result.choosing is None else cost_notes(result.choosing)
        write_pareto_report(load_runs(here), Path(place.output) / _REPORT, notes)
