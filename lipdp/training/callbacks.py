"""What runs beside the steps: the ledger, and a check of the user's own callbacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras

from lipdp.errors import BudgetExhausted, UnsafeSetting
from lipdp.privacy import Phase, PrivacyLedger
from lipdp.training.plan import TrainingPlan, affordable_steps

#: Metric of the present weights' certificates; shown for validation rows only.
CERTIFIED = "certified_accuracy"

_KNOWN = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.CSVLogger,
    keras.callbacks.EarlyStopping,
    keras.callbacks.History,
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.ProgbarLogger,
    keras.callbacks.ReduceLROnPlateau,
    keras.callbacks.TensorBoard,
)


class LedgerCallback(keras.callbacks.Callback):
    """Records each step before it runs and stops training at the last affordable one.

    It is the first callback, so that whatever another one saves already holds the step.

    Guarantees:
        * A step is in the ledger before its result can be seen.
        * No step runs that the budget does not afford, a restored ledger included.
    """

    def __init__(self, plan: TrainingPlan, steps_before: int) -> None:
        super().__init__()
        self._plan = plan
        self._counted = steps_before
        self._left = plan.affordable_steps

    @property
    def _ledger(self) -> PrivacyLedger:
        # Restoring a checkpoint replaces the model's ledger.
        return self.model.ledger

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """After a checkpoint was restored, counts again what is affordable."""
        if self._ledger.steps != self._counted:
            self._left = affordable_steps(
                self._plan.budget,
                self._ledger,
                Phase(self._plan.sampling_rate, self._plan.noise_multiplier, self._left),
                self._plan.capacity.overflow_probability_per_step,
                self._plan.delta,
            )

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Records the step that is about to run."""
        if self._left < 1:
            raise BudgetExhausted("The next step would pass the privacy budget")
        plan = self._plan
        self._left -= 1
        self._ledger.record(
            plan.sampling_rate,
            plan.noise_multiplier,
            overflow_probability=plan.capacity.overflow_probability_per_step,
        )
        self._counted = self._ledger.steps

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Stops after the last affordable step."""
        (logs or {}).pop(CERTIFIED, None)
        if self._left < 1:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Adds the epsilon spent so far to the epoch's log."""
        if logs is not None:
            logs.pop(CERTIFIED, None)
            logs["epsilon"] = self._ledger.epsilon(
                self._plan.delta, accountant=self._plan.budget.accountant
            )


def unknown_callbacks(callbacks: Iterable[keras.callbacks.Callback]) -> tuple[str, ...]:
    """Names of callbacks that the statement must name as not covered.

    Raises:
        UnsafeSetting: If a callback decides by a quantity of the training rows without noise.
    """
    names = []
    for callback in callbacks:
        _check_callback(callback)
        own = type(callback).__module__.startswith("lipdp.")
        if not own and type(callback) not in _KNOWN:
            names.append(type(callback).__name__)
    return tuple(names)


def _check_callback(callback: keras.callbacks.Callback) -> None:
    name = type(callback).__name__
    if isinstance(callback, keras.callbacks.TerminateOnNaN):
        raise UnsafeSetting(
            "TerminateOnNaN stops by the training loss, which is private and has no noise",
            received=name,
            fix="Leave it out",
        )
    if isinstance(callback, keras.callbacks.SwapEMAWeights):
        raise UnsafeSetting(
            "SwapEMAWeights puts weights outside their constraint sets while training",
            received=name,
            fix="Use the optimizer's use_ema=True alone: averages become the weights at the end",
        )
    monitor = _monitored(callback)
    if monitor is not None and not monitor.startswith("val_"):
        raise UnsafeSetting(
            f"{name} decides by {monitor!r}, a quantity of the private rows without noise",
            received=monitor,
            fix="Monitor a validation metric, such as monitor='val_loss', and pass validation_data",
        )


def _monitored(callback: keras.callbacks.Callback) -> str | None:
    """The log key that a callback decides by, or None."""
    if isinstance(callback, (keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau)):
        return str(callback.monitor)
    if isinstance(callback, keras.callbacks.ModelCheckpoint) and callback.save_best_only:
        return str(callback.monitor)
    return None
