"""Records each step before it runs, and stops at the last affordable one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras

from lipdp.bounds import gradient_bounds
from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.privacy import PrivacyLedger
from lipdp.training.ledger_file import LedgerFile
from lipdp.training.optimizer import PrivateOptimizer
from lipdp.training.plan import TrainingPlan
from lipdp.training.remaining_budget import RemainingBudget

if TYPE_CHECKING:
    from lipdp.training.gate import StepGate


class LedgerCallback(keras.callbacks.Callback):
    """Writes an access into the ledger, then opens the gate for its steps.

    It is the first callback. An access is recorded when all callbacks have seen the beginning of
    its batch, so that whatever one of them changed is noticed first, and before its step, so that
    whatever another one saves afterwards holds it. All that decides happens before a step: Keras
    may call the end of a step from a thread of its own, while the next ones are prepared.

    Before each step the model is compared with what it was when the plan was made. Its bounds are
    proved again, for the present weights, at each epoch's begin, after a restore, and before each
    access where the user lets steps run eagerly.

    Guarantees:
        * An access is in the ledger, and in the ledger file if there is one, before a step of it
          runs.
        * No step runs that the budget does not afford, a restored ledger included, whenever it
          was restored.
        * The first microbatch of an epoch is the first one of a draw: what an access counts as an
          epoch has the batches of one order of the rows.

    Args:
        plan: What is going to be done.
        gate: Lets the steps run.
        file: Where the ledger is kept while training, or None.
        micro_batches_per_epoch: Microbatches that an epoch reads.
    """

    #: Keras need not wait for a step's metrics before it prepares the next step.
    async_safe = True

    def __init__(
        self,
        plan: TrainingPlan,
        gate: StepGate,
        file: LedgerFile | None,
        micro_batches_per_epoch: int,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._gate = gate
        self._file = file
        self._budget = RemainingBudget(plan)
        self._per_access = plan.slots.micro_batches * plan.sampler.steps_per_access
        self._per_epoch, self._unread = micro_batches_per_epoch, 0
        self._proved_with: PrivacyLedger | None = None

    def set_model(self, model: keras.Model) -> None:
        """Keeps the model itself beside ``self.model``.

        On JAX ``self.model`` first writes the values of the last step back into the variables,
        which would take them from the step that is beginning.
        """
        super().set_model(model)
        self._trained = model

    @property
    def _ledger(self) -> PrivacyLedger:
        # Restoring a checkpoint replaces the model's ledger.
        return self._trained._private.ledger

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Refuses epochs that Keras would cut."""
        if self.params["steps"] != self._per_epoch:
            raise UnsafeSetting(
                "Keras would cut each epoch short, but an epoch is what the accountant counts",
                received=self.params["steps"],
                fix="Leave keras.config.max_steps_per_epoch() at None, and train fewer epochs",
            )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Sets the noise of the epoch."""
        if self._unread:
            raise InvalidState(
                "The last epoch was cut short, and this one would begin inside it",
                received=f"{self._unread} batches were not read",
                fix="Let a training that was stopped end, and call fit() again",
            )
        # A callback may have changed which variables are trained, or anything else of the model.
        if isinstance(self.model.optimizer, PrivateOptimizer):
            self.model.optimizer.require(self.model.trainable_variables)
        self._gate.check()
        self._gate.set_noise(self._budget.begin_epoch(epoch))
        self._proved_with = None

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Proves what is to be proved, and announces the microbatch."""
        if batch % self._per_access == 0:
            self._check_bounds()
            self._budget.check(self._ledger)
        self._unread = self._per_epoch - batch - 1
        self._gate.announce(batch % self._plan.slots.micro_batches, partial(self._begin, batch))

    def _begin(self, batch: int) -> None:
        """Just before the step: records the access that begins here; stops after the last one."""
        if batch % self._per_access == 0:
            self._record()
        # The last batch of an order may be missing, as in a stream of other than k b rows.
        is_last = (batch + 1) % self._per_access == 0 or batch + 1 == self._per_epoch
        if self._budget.is_spent and is_last:
            self._trained.stop_training = True

    def _check_bounds(self) -> None:
        """The plan is proved for the model and the weights that it saw.

        Raises:
            InvalidState: If the model changed, or its weights have larger bounds.
        """
        if self._proved_with is self._ledger and not self.model.run_eagerly:
            return
        self._gate.check()
        # A traced step may keep the variables' values to itself between steps.
        getattr(self.model, "jax_state_sync", lambda: None)()
        planned = self._plan.bounds.parameters
        now = gradient_bounds(self.model, self.model.loss).parameters
        if any(bound > limit for bound, limit in zip(now, planned, strict=True)):
            raise InvalidState(
                "The present weights have larger gradients than the plan was made for",
                received=max(b / p for b, p in zip(now, planned, strict=True) if p > 0.0),
                fix="Load them before fit(), or restore them into the model that wrote them; let "
                "callbacks leave weights as they are",
            )
        self._proved_with = self._ledger

    def _record(self) -> None:
        if self._proved_with is not self._ledger:
            raise InvalidState(
                "Weights were restored after the bounds of the step were proved",
                fix="Restore them at the begin of the training or of an epoch",
            )
        self._budget.record(self._ledger)
        # Which also takes over what another process wrote there, to be counted before the next one.
        if self._file is not None:
            self._file.write(self._ledger)
