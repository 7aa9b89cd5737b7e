"""Records each step before it runs, and stops at the last affordable one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras

from lipdp.bounds import gradient_bounds
from lipdp.errors import BudgetExhausted, InvalidState, UnsafeSetting
from lipdp.privacy import PrivacyLedger
from lipdp.training.ledger_file import LedgerFile
from lipdp.training.metrics import check_names
from lipdp.training.optimizer import PrivateOptimizer
from lipdp.training.plan import TrainingPlan, affordable_accesses
from lipdp.training.report import remember_limits

if TYPE_CHECKING:
    from lipdp.training.gate import StepGate

#: Metric of the present weights' certificates; shown for validation rows only.
CERTIFIED = "certified_accuracy"


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
        * The first part of an epoch is the first part of a draw: what an access counts as an epoch
          has the batches of one order of the rows.

    Args:
        plan: What is going to be done.
        gate: Lets the steps run.
        file: Where the ledger is kept while training, or None.
        parts_per_epoch: Items that an epoch reads.
    """

    #: Keras need not wait for a step's metrics before it prepares the next step.
    async_safe = True

    def __init__(
        self, plan: TrainingPlan, gate: StepGate, file: LedgerFile | None, parts_per_epoch: int
    ) -> None:
        super().__init__()
        self._plan = plan
        self._gate = gate
        self._file = file
        self._left = 0
        self._place, self._done = 0, 0
        self._parts_per_epoch, self._unread = parts_per_epoch, 0
        self._known: Any = None
        self._seen: Any = None
        self._proved = False
        self._parts = plan.slots.micro_batches * plan.sampler.steps_per_access
        self._multiplier = plan.noise_multiplier

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
        if self.params["steps"] != self._parts_per_epoch:
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
        factor = self._plan.factor_in(epoch)
        self._multiplier = self._plan.noise_multiplier * factor
        self._gate.set_noise(factor)
        self._place, self._done = self._plan.place_of(epoch), 0
        self._proved = False

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Proves what is to be proved, and announces the part."""
        if batch % self._parts == 0:
            self._check_bounds()
            self._count()
        self._unread = self._parts_per_epoch - batch - 1
        self._gate.announce(batch % self._plan.slots.micro_batches, partial(self._begin, batch))

    def _begin(self, batch: int) -> None:
        """Just before the step: records the access that a part begins; stops after the last."""
        if batch % self._parts == 0:
            self._record()
        # The last batch of an order may be missing, as in a stream of other than k b rows.
        is_last = (batch + 1) % self._parts == 0 or batch + 1 == self._parts_per_epoch
        if self._left < 1 and is_last:
            self._trained.stop_training = True

    def _check_bounds(self) -> None:
        """The plan is proved for the model and the weights that it saw.

        Raises:
            InvalidState: If the model changed, or its weights have larger bounds.
        """
        if self._proved and self._seen is self._ledger and not self.model.run_eagerly:
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
        self._seen, self._proved = self._ledger, True

    def _count(self) -> None:
        """At the start, and after a restore, counts what is left."""
        if self._contents() != self._known:
            self._left = affordable_accesses(self._plan, self._ledger, self._place, self._done)
        if self._left < 1:
            raise BudgetExhausted("The next step would pass the privacy budget")

    def _contents(self) -> Any:
        return self._ledger.phases, self._ledger.unknown_history

    def _record(self) -> None:
        if self._seen is not self._ledger:
            raise InvalidState(
                "Weights were restored after the bounds of the step were proved",
                fix="Restore them at the begin of the training or of an epoch",
            )
        self._count()
        plan = self._plan
        self._left -= 1
        self._done += 1
        self._ledger.record(
            plan.sampler.sampling_rate,
            self._multiplier,
            overflow_probability=plan.capacity.overflow_probability_per_step,
            draw=plan.sampler.kind,
            terms=plan.terms,
        )
        remember_limits(plan, self._ledger)
        # Before the file adds what another process wrote there.
        self._known = self._contents()
        if self._file is not None:
            self._file.write(self._ledger)

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
        if epoch + 1 < self.params["epochs"] and not self.model.stop_training:
            rough = self._ledger.epsilon(delta, accountant=budget.accountant, coarse=True)
            # A rough bound above the budget would look like a breach of it.
            if budget.epsilon is None or rough <= budget.epsilon:
                return rough
        return self._ledger.epsilon(delta, accountant=budget.accountant)


class RemoveLedgerFile(keras.callbacks.Callback):
    """Deletes the ledger file of a backup once the training is complete.

    It is the last callback: at every moment before, a backup on disk has its ledger beside it.

    Args:
        file: The ledger file.
    """

    def __init__(self, file: LedgerFile) -> None:
        super().__init__()
        self._file = file

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Deletes the file."""
        self._file.remove()
