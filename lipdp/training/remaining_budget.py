"""Whether the next access may run: what a plan asks for against what the ledger has spent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lipdp.errors import BudgetExhausted
from lipdp.privacy import PrivacyLedger
from lipdp.training.plan import TrainingPlan, affordable
from lipdp.training.report import remember_limits


class RemainingBudget:
    """Counts the accesses of a plan, and how many more its budget allows.

    It knows a plan and no model. Each method is told the ledger, since a restored checkpoint brings
    another one; whenever its contents are not those of the last record, they are counted anew.

    Guarantees:
        * No access is recorded that takes the ledger beyond the budget
          (``test_remaining_budget.py::test_no_access_passes_the_budget``).
        * An access has the noise of its epoch, and an epoch no more accesses than were planned
          (``test_each_access_has_the_noise_of_its_epoch``, ``test_a_recount_allows_the_same``).

    Args:
        plan: What is going to be done.
    """

    def __init__(self, plan: TrainingPlan) -> None:
        self._plan = plan
        self._epoch, self._done = 0, 0
        self._left = 0
        self._known: Any = None

    def begin_epoch(self, epoch: int) -> float:
        """Goes on with an epoch, and returns what its noise is multiplied by.

        Args:
            epoch: Its number, as Keras counts.

        Raises:
            InvalidState: If it was not planned.
        """
        self._epoch, self._done = self._plan.place_of(epoch), 0
        return self._plan.factor_in(epoch)

    @property
    def is_spent(self) -> bool:
        """Whether the last recorded access was the last one that may run."""
        return self._left < 1

    def check(self, ledger: PrivacyLedger) -> None:
        """Refuses the next access if it may not run.

        Raises:
            BudgetExhausted: If it would pass the budget, or nobody knows what was spent.
        """
        if _contents(ledger) != self._known:
            self._left = self._affordable(ledger)
        if self._left < 1:
            raise BudgetExhausted("The next step would pass the privacy budget")

    def record(self, ledger: PrivacyLedger) -> None:
        """Writes the next access into the ledger, before a step of it runs.

        Raises:
            BudgetExhausted: As ``check``, if it may not run; nothing is recorded then.
        """
        self.check(ledger)
        self._left -= 1
        self._done += 1
        self._plan.record_in(ledger, self._epoch)
        remember_limits(self._plan, ledger)
        self._known = _contents(ledger)

    def _affordable(self, ledger: PrivacyLedger) -> int:
        """Accesses from the present one on that the budget allows."""
        if ledger.unknown_history:
            raise BudgetExhausted(
                "Weights without a ledger were loaded, so that what was spent is unknown",
                fix="Start anew without that checkpoint or backup",
            )
        plan = self._plan
        first, *later = plan.phases[self._epoch :]
        ahead = [replace(first, steps=first.steps - self._done), *later]
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


def _contents(ledger: PrivacyLedger) -> Any:
    return ledger.phases, ledger.unknown_history
