"""What the budget still allows after what the ledger holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lipdp.errors import BudgetExhausted
from lipdp.privacy import Phase, PrivacyBudget, PrivacyLedger, max_steps

if TYPE_CHECKING:
    from lipdp.training.plan import TrainingPlan


def left_of(delta: float, overflow: float) -> float:
    """What overflow leaves of delta, less the rounding of these sums in float64."""
    return (delta - overflow) * (1.0 - 1e-9)


def affordable_accesses(plan: TrainingPlan, ledger: PrivacyLedger, epoch: int) -> int:
    """Accesses of the plan from an epoch on that the budget still allows.

    Args:
        plan: What is going to be done.
        ledger: What was spent.
        epoch: The epoch that is about to begin, counted from 0.

    Raises:
        BudgetExhausted: If not one access is affordable.
    """
    ahead = plan.phases[epoch:]
    price = plan.capacity.overflow_probability_per_step
    return affordable(plan.budget, ledger, ahead, price, plan.delta)


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

    Raises:
        BudgetExhausted: If not one access is affordable.
    """
    wanted = sum(phase.steps for phase in ahead)
    if budget.epsilon is None:
        return wanted
    left = left_of(delta - ledger.overflow_delta, wanted * overflow)
    allowed = 0
    if left > 0.0:
        allowed = max_steps(
            ledger.phases,
            ahead,
            budget.epsilon,
            left,
            accountant=budget.accountant,
            adjacency=budget.adjacency,
        )
    if allowed < 1:
        raise BudgetExhausted(
            "The privacy budget is spent: not one more step is affordable",
            received=budget.epsilon,
            fix="Compile with a larger epsilon, such as "
            f"PrivacyBudget(epsilon={2 * budget.epsilon:g})",
        )
    return allowed
