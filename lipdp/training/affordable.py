"""What the budget still allows after what the ledger holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lipdp.errors import BudgetExhausted
from lipdp.privacy import Phase, PrivacyBudget, PrivacyLedger, max_steps

if TYPE_CHECKING:
    from lipdp.training.plan import TrainingPlan


def left_of(delta: float, overflow: float) -> float:
    """What overflow leaves of delta, less the rounding of these sums in float64."""
    return (delta - overflow) * (1.0 - 1e-9)


def affordable_accesses(plan: TrainingPlan, ledger: PrivacyLedger, epoch: int, done: int) -> int:
    """Accesses of the plan from an epoch on that the budget still allows.

    Args:
        plan: What is going to be done.
        ledger: What was spent.
        epoch: The present epoch, counted from the first of the plan.
        done: Accesses of it that were made.

    Raises:
        BudgetExhausted: If not one access is affordable, or nobody knows what was spent.
    """
    if ledger.unknown_history:
        raise BudgetExhausted(
            "Weights without a ledger were loaded, so that what was spent is unknown",
            fix="Start anew without that checkpoint or backup",
        )
    first, *later = plan.phases[epoch:]
    ahead = [replace(first, steps=first.steps - done), *later]
    price = plan.capacity.overflow_probability_per_step
    allowed = affordable(plan.budget, ledger, ahead, price, plan.delta)
    if allowed < 1:
        raise BudgetExhausted(
            "The privacy budget is spent: not one more step is affordable",
            received=plan.budget.epsilon,
            fix="Compile with a larger epsilon, such as "
            f"PrivacyBudget(epsilon={2 * (plan.budget.epsilon or 0.0):g})",
        )
    return allowed


def affordable(
    budget: PrivacyBudget,
    ledger: PrivacyLedger,
    ahead: Sequence[Phase],
    overflow: float,
    delta: float,
) -> int:
    """Accesses of the phases ahead that the budget allows.

    Args:
        budget: What may be spent; without epsilon every access is affordable.
        ledger: What was spent.
        ahead: The phases asked for, in order.
        overflow: Price in delta of one access.
        delta: delta of the statement, overflow included.

    Returns:
        0 if not one is affordable.
    """
    wanted = sum(phase.steps for phase in ahead)
    if budget.epsilon is None:
        return wanted
    left = left_of(delta - ledger.overflow_delta, wanted * overflow)
    if left <= 0.0:
        return 0
    return max_steps(
        ledger.phases,
        ahead,
        budget.epsilon,
        left,
        accountant=budget.accountant,
        adjacency=budget.adjacency,
    )
