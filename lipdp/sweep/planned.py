"""What a trial is going to cost under each setting that it may draw."""

from __future__ import annotations

import math

from lipdp.errors import InvalidConfig, LipdpError
from lipdp.experiment.bounds import plan_of
from lipdp.privacy import PrivacyLedger, repeat_and_select
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
    for phase in plan.phases:
        ledger.record(
            phase.sampling_rate,
            phase.noise_multiplier,
            phase.steps,
            overflow_probability=plan.capacity.overflow_probability_per_step,
            draw=phase.draw,
        )
    return ledger
