"""The guarantee of a trained model, in words."""

from __future__ import annotations

from lipdp.privacy import PrivacyLedger, PrivacyStatement, accountant_version
from lipdp.training.plan import TrainingPlan

_SUMMATION = (
    "rounding of the float32 sum over a batch (train in float64, where it is inside the bounds)"
)


def statement_of(
    plan: TrainingPlan,
    ledger: PrivacyLedger,
    *,
    other_accesses: tuple[str, ...] = (),
    not_covered: tuple[str, ...] = (),
) -> PrivacyStatement:
    """The statement for everything that the ledger holds.

    Args:
        plan: The plan of the last ``fit``.
        ledger: All steps so far.
        other_accesses: What else read the training rows.
        not_covered: What epsilon does not speak of, beyond the usual.
    """
    budget = plan.budget
    return PrivacyStatement(
        adjacency=budget.adjacency,
        num_examples=plan.num_examples,
        expected_batch_size=plan.expected_batch_size,
        sampling_rate=plan.sampling_rate,
        noise_multiplier=plan.noise_multiplier,
        steps=ledger.steps,
        epsilon=ledger.epsilon(plan.delta, accountant=budget.accountant),
        delta=plan.delta,
        accountant=budget.accountant,
        accountant_library=accountant_version(),
        capacity=plan.capacity,
        overflow_delta=ledger.overflow_delta,
        allocation=budget.allocation,
        other_accesses=other_accesses,
        not_covered=not_covered + (() if plan.covers_summation else (_SUMMATION,)),
        reproducible=budget.seed is not None,
    )
