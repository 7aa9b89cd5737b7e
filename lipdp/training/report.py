"""The guarantee of a trained model, in words."""

from __future__ import annotations

from lipdp.privacy import NOT_COVERED, PrivacyLedger, PrivacyStatement, accountant_library
from lipdp.training.plan import TrainingPlan

_SUMMATION = (
    "rounding of the float32 sum over a batch (train in float64, where it is inside the bounds)"
)

_TRAFFIC = (
    "the network between the processes, which carries seeds of the noise and sums of gradients"
    " without noise: whoever reads it can undo the noise"
)


def remember_limits(plan: TrainingPlan, ledger: PrivacyLedger) -> None:
    """Lets all statements of a ledger name what accesses of a plan do not cover."""
    for words in _limits(plan):
        ledger.remarks.add("not_covered", words)


def _limits(plan: TrainingPlan) -> tuple[str, ...]:
    rounding = () if plan.covers_summation else (_SUMMATION,)
    traffic = (_TRAFFIC,) if plan.request.devices.processes > 1 else ()
    return (*rounding, *traffic)


def statement_of(
    plan: TrainingPlan, ledger: PrivacyLedger, *, not_covered: tuple[str, ...] = ()
) -> PrivacyStatement:
    """The statement for everything that the ledger holds.

    Args:
        plan: The plan of the last ``fit``, which gives delta and accountant.
        ledger: All accesses so far, with what statements must say of them.
        not_covered: What else epsilon does not speak of.
    """
    budget = plan.budget
    spent = ledger.account(plan.delta, accountant=budget.accountant)
    remarks = ledger.remarks
    words = (*NOT_COVERED, *_limits(plan), *remarks.of("not_covered"), *not_covered)
    return PrivacyStatement(
        adjacency=budget.adjacency,
        epsilon=spent.epsilon,
        delta=plan.delta,
        accountant=spent.method,
        accountant_library=accountant_library(),
        overflow_delta=ledger.overflow_delta,
        accesses=ledger.accesses,
        other_accesses=remarks.of("other_accesses"),
        not_covered=tuple(dict.fromkeys(words)),
        reproducible=budget.seed is not None,
    )
