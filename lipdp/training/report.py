"""The guarantee of a trained model, in words."""

from __future__ import annotations

from lipdp.privacy import (
    NOT_COVERED,
    Phase,
    PrivacyLedger,
    PrivacyStatement,
    accountant_library,
)
from lipdp.training.plan import TrainingPlan

_SUMMATION = (
    "rounding of the float32 sum over a batch (train in float64, where it is inside the bounds)"
)

_TRAFFIC = (
    "the network between the processes, which carries seeds of the noise and sums of gradients"
    " without noise: whoever reads it can undo the noise"
)


def _unit(plan: TrainingPlan) -> str:
    if plan.request.unit == "row":
        return "one row of the training set"
    return f"all rows of one user, of which at most {plan.request.rows_per_unit} take part"


def _clips(plan: TrainingPlan) -> int:
    """Adaptive thresholds that some noise follows, or that have noise of their own."""
    return len({clip for chosen in plan.shares.clips for clip in chosen})


def _other_phases(plan: TrainingPlan, ledger: PrivacyLedger) -> list[Phase]:
    """Accesses of earlier trainings, with other numbers than those of the plan."""
    planned = {(p.sampling_rate, p.noise_multiplier, p.draw) for p in plan.phases}
    return [
        phase
        for phase in ledger.training_phases
        if (phase.sampling_rate, phase.noise_multiplier, phase.draw) not in planned
    ]


def _in_words(phase: Phase) -> str:
    return (
        f"an earlier training: {phase.steps} accesses at noise multiplier"
        f" {phase.noise_multiplier:.6g} and sampling rate {phase.sampling_rate:.6g}, inside epsilon"
    )


def statement_of(
    plan: TrainingPlan, ledger: PrivacyLedger, *, not_covered: tuple[str, ...] = ()
) -> PrivacyStatement:
    """The statement for everything that the ledger holds.

    Args:
        plan: The plan of the last ``fit``.
        ledger: All steps so far, with what statements must say of them.
        not_covered: What else epsilon does not speak of.
    """
    budget = plan.budget
    spent = ledger.account(plan.delta, accountant=budget.accountant)
    earlier = tuple(map(_in_words, _other_phases(plan, ledger)))
    rounding = () if plan.covers_summation else (_SUMMATION,)
    traffic = (_TRAFFIC,) if plan.request.devices.processes > 1 else ()
    return PrivacyStatement(
        adjacency=budget.adjacency,
        num_examples=plan.num_examples,
        expected_batch_size=plan.expected_batch_size,
        sampling_rate=plan.sampling_rate,
        noise_multiplier=plan.noise_multiplier,
        steps=ledger.steps,
        epsilon=spent.epsilon,
        delta=plan.delta,
        accountant=spent.method,
        accountant_library=accountant_library(),
        capacity=plan.capacity,
        overflow_delta=ledger.overflow_delta,
        allocation=budget.allocation,
        other_accesses=(*earlier, *ledger.other_accesses, *ledger.remarks.of("other_accesses")),
        not_covered=(
            *NOT_COVERED,
            *rounding,
            *traffic,
            *ledger.remarks.of("not_covered"),
            *not_covered,
        ),
        reproducible=budget.seed is not None or ledger.seeded,
        unit=_unit(plan),
        unit_word=plan.request.unit,
        sampling=plan.sampler.title,
        assumption=plan.sampler.assumption,
        secure_noise=budget.secure_noise and ledger.secure,
        steps_per_access=plan.sampler.steps_per_access,
        noise_schedule=budget.noise_schedule,
        adaptive_clips=_clips(plan),
    )
