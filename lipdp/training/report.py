"""What a training says of its guarantee: epsilon in each epoch's log, and the statement."""

from __future__ import annotations

from typing import Any

import keras

from lipdp.privacy import NOT_COVERED, PrivacyLedger, PrivacyStatement, accountant_library
from lipdp.training.metrics import check_names
from lipdp.training.plan import TrainingPlan

#: Metric of the present weights' certificates; shown for validation rows only.
CERTIFIED = "certified_accuracy"

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


class EpsilonLog(keras.callbacks.Callback):
    """Adds the epsilon spent so far to each epoch's log, and refuses names that are taken.

    It comes before the user's callbacks, which read the log.

    Args:
        plan: What is going to be done.
    """

    #: Keras need not wait for a step's metrics before it prepares the next step.
    async_safe = True

    def __init__(self, plan: TrainingPlan) -> None:
        super().__init__()
        self._plan = plan

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Leaves out what holds for validation rows only, and refuses names of theirs.

        Raises:
            UnsafeSetting: If a metric makes a name that callbacks take for one of held-out rows.
        """
        check_names(list(logs or ()))
        (logs or {}).pop(CERTIFIED, None)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Adds the epsilon spent so far to the epoch's log."""
        if logs is not None:
            logs.pop(CERTIFIED, None)
            logs["epsilon"] = self._epsilon(epoch)

    def _epsilon(self, epoch: int) -> float:
        """A bound that costs little beside an epoch; the best one at the end of the training."""
        budget, delta = self._plan.budget, self._plan.delta
        ledger = self.model._private.ledger
        if epoch + 1 < self.params["epochs"] and not self.model.stop_training:
            rough = ledger.epsilon(delta, accountant=budget.accountant, coarse=True)
            # A rough bound above the budget would look like a breach of it.
            if budget.epsilon is None or rough <= budget.epsilon:
                return rough
        return ledger.epsilon(delta, accountant=budget.accountant)
