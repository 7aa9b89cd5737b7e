"""The privacy cost of choosing among trials, in numbers and words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lipdp.errors import InvalidConfig, LipdpError
from lipdp.privacy import PrivacyLedger, composed, repeat_and_select
from lipdp.privacy.statement import SEEDED
from lipdp.results.lines import decimals_up
from lipdp.run.bounds import plan_of
from lipdp.sweep.records import Choosing, RepeatCost, TrialRecord, chosen
from lipdp.sweep.space import accounted_settings, trial_config
from lipdp.sweep.study import SHAPE, Settings
from lipdp.training import TrainingPlan


def planned_ledgers(settings: Settings) -> list[PrivacyLedger]:
    """One ledger for each combination of settings on which the cost depends.

    Empty where the number of trials is not random: then nobody needs them.

    Guarantees:
        * Every trial of the space spends at most one of these.

    Raises:
        InvalidConfig: If these combinations cannot be listed or planned, or the best of a random
            number of such trials would have no finite epsilon.
    """
    if settings.mean is None:
        return []
    found, deltas = [], []
    for parameters in accounted_settings(settings.sweep):
        try:
            plan, ledger = plan_of(trial_config(settings.config, settings.sweep, parameters))
        except LipdpError as error:
            raise InvalidConfig(
                f"What a trial with these settings costs cannot be planned: {error.what}",
                received=parameters,
                fix=error.fix or "Take them out of sweep.space",
            ) from error
        found.append(_with_steps(ledger, plan))
        deltas.append(plan.delta)
    _check_finite(found, max(deltas), settings.mean)
    return found


def _check_finite(planned: list[PrivacyLedger], delta: float, mean: float) -> None:
    cost = repeat_and_select(planned, delta, mean=mean, shape=SHAPE)
    if not math.isfinite(cost.epsilon):
        raise InvalidConfig(
            "The best of a random number of such trials has no finite epsilon (that a Poisson "
            "batch overflows counts mean times e^epsilon; truncated ones have no Renyi divergence)",
            received={"mean": mean, "delta": delta},
            fix='Lower privacy.epsilon, use privacy.sampling = "shuffled", or --trials',
        )


def _with_steps(ledger: PrivacyLedger, plan: TrainingPlan) -> PrivacyLedger:
    for place, phase in enumerate(plan.phases):
        plan.record_in(ledger, place, phase.steps)
    return ledger


_APPLIES = (
    "The number of trials was drawn in advance and in secret, each trial drew its settings by "
    "itself, and none was stopped by comparison. So the chosen run, published alone, costs this. "
    "Nothing else of the sweep may be published: no other run, no number of trials, no sweep.json."
)
_UNFINISHED = (
    "Not yet: a random number of trials must run to its end before one is chosen. Repeat the "
    "command to go on. Whoever stops here and publishes a run pays for all of them together."
)
_HYPOTHETICAL = (
    "Not a cost of this sweep, whose trials followed each other's results and whose number was "
    "chosen. The best run, published alone, would have cost this if the number of trials had been "
    "drawn at random and in secret with this mean, each with settings drawn by itself, none "
    "pruned: lipdp sweep --random-trials does that."
)
_LOST = (
    "Not a cost of this sweep: what a trial spent is not known, so nothing bounds it. Whoever "
    "publishes a run pays for all of them together."
)
_ELSEWHERE = (
    "Another machine runs what is missing, or did until it died: repeat the command when it has "
    "ended there. If that machine is gone for good, copy its folder trials, hidden files too, into "
    "the one here, and the same command goes on with it. If that folder is lost too, no finite "
    "epsilon holds for this sweep."
)
_DAMAGED = "The record is lost or damaged, so no finite epsilon holds for this sweep."
#: The default of up to 10^5 rows, where no trial came so far as to say how many there are.
_DELTA = 1e-5


def cost_of_choosing(
    settings: Settings,
    trials: Sequence[TrialRecord],
    *,
    complete: bool,
    planned: Sequence[PrivacyLedger] = (),
) -> Choosing | None:
    """What was spent, and what may be claimed of the chosen run.

    Guarantees:
        * ``together`` composes the ledgers of all trials: finished, pruned, failed and running. It
          is infinite if one is not known here, as that of a trial that another machine runs.
        * ``epsilon`` is the cost of the best of a random number of trials only where the sweep was
          one and every trial has ended; otherwise it is ``together``.

    Args:
        settings: What the trials share.
        trials: All trials.
        complete: Whether as many trials as wanted have ended.
        planned: Where the number of trials was drawn: what a trial costs under each setting that
            it could draw.

    Returns:
        None if nothing was spent.
    """
    ledgers = {t.number: PrivacyLedger.from_json(t.ledger) for t in trials if t.ledger}
    if not ledgers:
        return None
    privacy, best = settings.config.privacy, chosen(trials)
    delta = max((t.delta for t in trials if t.delta), default=privacy.delta or _DELTA)
    final = all(t.state != "running" for t in trials)
    together = composed(ledgers.values(), delta, accountant=privacy.accountant).epsilon
    repeat = _repeat(settings, trials, delta, complete and final, planned)
    return Choosing(
        delta=delta,
        accountant=privacy.accountant,
        adjacency=privacy.adjacency,
        alone=None
        if best is None or not best.ledger
        else ledgers[best.number].epsilon(delta, accountant=privacy.accountant),
        together=together,
        counted_trials=len(ledgers),
        repeat=repeat,
        # Never the lesser of the two: which one it is would tell how many trials there were.
        epsilon=repeat.epsilon if repeat is not None and repeat.applies else together,
        final=final,
        not_private="" if settings.config.privacy.seed is None else SEEDED,
        not_covered=_not_covered(settings),
        unknown_trials=[number for number, one in ledgers.items() if one.unknown_history],
    )


def cost_notes(cost: Choosing) -> list[str]:
    """Both costs in words that say which of them holds; what is not covered comes last."""
    so_far = "" if cost.final else ", so far: trials have not ended"
    notes = []
    if cost.alone is not None:
        notes.append(
            f"The chosen run alone, had nothing else been tried: epsilon {decimals_up(cost.alone)}."
        )
    notes.append(
        f"With all that were tried ({cost.counted_trials}), pruned and failed ones included: "
        f"epsilon {decimals_up(cost.together)}{so_far}."
    )
    if cost.unknown_trials:
        notes.append(_missing(cost))
    if cost.repeat is not None:
        notes.append(
            f"The best of a random number of trials, {cost.repeat.mean:g} on average: epsilon "
            f"{decimals_up(cost.repeat.epsilon)}. {cost.repeat.words}"
        )
    if cost.alone is not None:
        notes.append(_claim(cost))
    if cost.not_private:
        notes.append(f"NOT PRIVATE: {cost.not_private}.")
    at = f"All of it at delta {cost.delta:g}, by {cost.accountant}, under {cost.adjacency}."
    return [*notes, at, *(f"Not covered: {text}" for text in cost.not_covered)]


def _missing(cost: Choosing) -> str:
    noun = "trial" if len(cost.unknown_trials) == 1 else "trials"
    numbers = ", ".join(map(str, cost.unknown_trials))
    reason = _DAMAGED if cost.final else _ELSEWHERE
    return f"What {noun} {numbers} spent is not known here and counts as infinite. {reason}"


def _claim(cost: Choosing) -> str:
    if cost.final:
        return f"What may be claimed of the chosen run: epsilon {decimals_up(cost.epsilon)}."
    return (
        "Nothing may be claimed of the chosen run yet, so it carries no guarantee.txt: trials that "
        f"have not ended go on spending. By now it would be epsilon {decimals_up(cost.epsilon)}."
    )


def claim_of_chosen(cost: Choosing) -> str:
    """What goes with the chosen run when it is published; it tells no secret number of trials."""
    if cost.repeat is not None and cost.repeat.applies:
        how = (
            f"the best of a secret number of trials, geometric with mean {cost.repeat.mean:g}, "
            "each with settings drawn by itself. That holds if nothing else of the sweep is "
            "published"
        )
    else:
        how = (
            f"chosen among {cost.counted_trials} trials, which all count; one that begins later, on"
            " whatever machine, costs more"
        )
    guarantee = (
        f"epsilon {decimals_up(cost.epsilon)} at delta {cost.delta:g}, under {cost.adjacency}"
    )
    first = (
        f"This run was {how}. Its guarantee is therefore {guarantee}, not the one in its own "
        "result.json."
    )
    seeded = [f"NOT PRIVATE: {cost.not_private}."] if cost.not_private else []
    return "\n\n".join([first, *seeded, *(f"Not covered: {text}" for text in cost.not_covered)])


def _repeat(
    settings: Settings,
    trials: Sequence[TrialRecord],
    delta: float,
    complete: bool,
    planned: Sequence[PrivacyLedger],
) -> RepeatCost | None:
    finished = [PrivacyLedger.from_json(t.ledger) for t in trials if t.ledger and _whole(t)]
    if not finished:
        return None
    random = settings.mean is not None
    mean = float(settings.mean or len(trials))
    cost = repeat_and_select([*planned, *finished], delta, mean=mean, shape=SHAPE)
    known = not any(PrivacyLedger.from_json(t.ledger).unknown_history for t in trials if t.ledger)
    ended = (_APPLIES if known else _LOST) if complete else _UNFINISHED
    return RepeatCost(
        epsilon=cost.epsilon,
        applies=random and complete and known and bool(planned),
        mean=mean,
        shape=SHAPE,
        words=ended if random else _HYPOTHETICAL,
    )


def _whole(trial: TrialRecord) -> bool:
    return trial.state == "finished"


def _not_covered(settings: Settings) -> list[str]:
    # Without the number of trials, which may be a secret.
    fraction = settings.sweep.validation_fraction
    return [
        f"The validation rows, {fraction:.3g} of the training rows: no trial trained on them, but "
        f"all were compared by their exact {settings.sweep.metric} there, so which run was chosen "
        "depends on them, and nothing is guaranteed for these rows.",
        "The test rows, on which the chosen run was measured.",
    ]
