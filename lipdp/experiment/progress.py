"""Passes Keras' progress on to a listener."""

from __future__ import annotations

from collections.abc import Mapping
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
        """A step is done with the last part of its batch."""
        step, rest = divmod(batch + 1, self.model.plan.slots.micro_batches)
        if not rest:
            self._listener.on_step(self._epoch, step - 1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """An epoch is done."""
        self._listener.on_epoch(epoch, public_logs(logs))


def public_logs(logs: Mapping[str, Any] | None) -> dict[str, float]:
    """Epsilon and held-out metrics; what was measured on training rows stays out."""
    return {
        name: float(value)
        for name, value in (logs or {}).items()
        if name == "epsilon" or name.startswith("val_")
    }


def plan_record(plan: TrainingPlan, model: keras.Model) -> dict[str, Any]:
    """The plan as plain data for files and screens."""
    rows = [row for row in plan.bounds.rows if row.variable]
    noise = zip(rows, model.trainable_variables, plan.stddevs, plan.sensitivities, strict=True)
    return {
        **plan_facts(plan),
        "allocation": plan.budget.allocation,
        "logit_bound": plan.bounds.logit_bound,
        "loss_lipschitz": plan.bounds.loss_lipschitz,
        "variables": [
            variable_record(row.layer, variable, sensitivity, stddev)
            for row, variable, stddev, sensitivity in noise
        ],
    }


def plan_facts(plan: TrainingPlan) -> dict[str, Any]:
    """What a plan says whatever bounds the gradients."""
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
        "dtype": plan.dtype,
    }


def variable_record(layer: str, variable: Any, bound: float, stddev: float) -> dict[str, Any]:
    """The bound and the noise of one variable as plain data."""
    return {
        "layer": layer,
        "variable": variable.name,
        "size": int(keras.ops.size(variable)),
        "bound": bound,
        "noise_stddev": stddev,
    }
