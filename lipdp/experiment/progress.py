"""Passes Keras' progress on to a listener."""

from __future__ import annotations

from typing import Any

import keras

from lipdp.experiment.outcome import Listener
from lipdp.training import TrainingPlan


class ListenerCallback(keras.callbacks.Callback):
    """Tells a listener about steps and epochs."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener
        self._epoch = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """The plan is made before Keras begins."""
        plan = self.model.plan
        self._listener.on_start(
            plan_record(plan, self.model), self.params["epochs"], plan.steps_per_epoch
        )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Remembers the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """A step is done."""
        self._listener.on_step(self._epoch, batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """An epoch is done."""
        self._listener.on_epoch(epoch, {k: float(v) for k, v in (logs or {}).items()})


def plan_record(plan: TrainingPlan, model: keras.Model) -> dict[str, Any]:
    """The plan as plain data for files and screens."""
    rows = [row for row in plan.bounds.rows if row.variable]
    noise = zip(rows, model.trainable_variables, plan.stddevs, plan.sensitivities, strict=True)
    return {
        "num_examples": plan.num_examples,
        "expected_batch_size": plan.expected_batch_size,
        "sampling_rate": plan.sampling_rate,
        "steps": plan.steps,
        "affordable_steps": plan.affordable_steps,
        "capacity": plan.capacity.rows,
        "noise_multiplier": plan.noise_multiplier,
        "delta": plan.delta,
        "accountant": plan.budget.accountant,
        "allocation": plan.budget.allocation,
        "dtype": plan.dtype,
        "logit_bound": plan.bounds.logit_bound,
        "loss_lipschitz": plan.bounds.loss_lipschitz,
        "variables": [
            {
                "layer": row.layer,
                "variable": row.variable,
                "size": int(keras.ops.size(variable)),
                "bound": sensitivity,
                "noise_stddev": stddev,
            }
            for row, variable, stddev, sensitivity in noise
        ],
    }
