"""What listens to the training of a run: progress, time, epochs, boards, stopping, divergence."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, final

import keras
import numpy as np
import pandas as pd

from lipdp.certificates import Certificates
from lipdp.errors import InvalidConfig, InvalidData, InvalidState, InvalidValue
from lipdp.results.lines import digits_up
from lipdp.run.outcome import Listener
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
        """A step is done with the last microbatch of its batch."""
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


class Stopper(Protocol):
    """Says when a training shall stop early."""

    @property
    def wanted(self) -> bool:
        """Whether it shall stop after the present step."""

    def watching(self) -> AbstractContextManager[None]:
        """Around the steps of a training."""


class StopCallback(keras.callbacks.Callback):
    """Stops after a whole step if that is wanted; the last step of all is no early stop.

    Attributes:
        stopped: Whether it stopped the training early.
        inside_epoch: Whether steps of the present epoch were left out.
    """

    def __init__(self, stopper: Stopper | None) -> None:
        super().__init__()
        self._stopper = stopper
        self._epoch = 0
        self.stopped = False
        self.inside_epoch = False

    def watching(self) -> AbstractContextManager[None]:
        """Around the steps of the training."""
        return nullcontext() if self._stopper is None else self._stopper.watching()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Remembers the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Stops if that is wanted, never between the microbatches of a batch."""
        slots, steps = self.model.plan.slots, self.model.plan.steps_per_epoch
        done, rest = divmod(batch + 1, slots.micro_batches)
        wanted = self._stopper is not None and self._stopper.wanted
        # Where the budget has just ended there is nothing left to go on with.
        if not wanted or rest or self.model.stop_training:
            return
        self.inside_epoch = done < steps
        self.stopped = self.inside_epoch or self._epoch + 1 < self.params["epochs"]
        self.model.stop_training = self.stopped


class Clock:
    """Counts the seconds of a run from now on, after those that earlier sessions left in a file.

    Args:
        path: The file, in the folder of the unfinished run.
        anew: Whether the file there is that of another run.

    Raises:
        InvalidData: If the file is damaged.
    """

    def __init__(self, path: Path, *, anew: bool = False) -> None:
        self._path = path
        self._started = time.monotonic()
        self._earlier = _read(path) if path.exists() and not anew else 0.0

    @property
    def seconds(self) -> float:
        """Seconds of this session and of all before."""
        return self._earlier + time.monotonic() - self._started

    def keep(self) -> None:
        """Writes the seconds so far for a later session, if the run has a folder by now."""
        if not self._path.parent.is_dir():
            return
        fresh = self._path.with_name(f"{self._path.name}.tmp")
        fresh.write_text(json.dumps(self.seconds), encoding="utf-8")
        fresh.replace(self._path)


class ClockCallback(keras.callbacks.Callback):
    """Keeps the seconds of the run, so that a kill loses those of one epoch at most."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Keeps what the preparation took."""
        self._clock.keep()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keeps the seconds so far."""
        self._clock.keep()


def _read(path: Path) -> float:
    try:
        seconds = float(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise _damaged(path, error) from error
    if not 0.0 <= seconds < math.inf:
        raise _damaged(path, seconds)
    return seconds


def _damaged(path: Path, found: object) -> InvalidData:
    return InvalidData(
        f"The seconds of an unfinished run cannot be read ({found!r})",
        received=str(path),
        fix="Delete this file: the time of the earlier sessions is then missing from the result",
    )


def read_epochs(path: Path) -> pd.DataFrame:
    """What ``EpochLog`` wrote: one row an epoch, the last one where an epoch ran twice."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = {row["epoch"]: row for line in lines if (row := _epoch(line)) is not None}
    return pd.DataFrame([rows[epoch] for epoch in sorted(rows)])


def _epoch(line: str) -> dict[str, Any] | None:
    """What an epoch reached; None for a line that a full disk cut: its curve lacks a point then."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "epoch" in row else None


class EpochLog(keras.callbacks.Callback):
    """Epsilon and held-out metrics; what was measured on training rows stays out."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Appends one line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": epoch + 1, **public_logs(logs)}) + "\n")


class Backup(keras.callbacks.BackupAndRestore):
    """Keras' backup; an epoch that was stopped inside begins anew, with the weights reached."""

    def __init__(self, folder: Path, stop: StopCallback) -> None:
        super().__init__(str(folder), double_checkpoint=True, delete_checkpoint=False)
        self._stop = stop

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Saves the weights, and the epoch to go on with."""
        super().on_epoch_end(epoch - 1 if self._stop.inside_epoch else epoch, logs)


def public_boards(folder: str | None) -> list[keras.callbacks.Callback]:
    """The callback that a configuration asks for, if it asks for one."""
    return [] if folder is None else [PublicTensorBoard(Path(folder))]


def board_of_run(folder: str | None, name: str) -> str | None:
    """The folder for one of several runs, whose curves would mix in one."""
    return None if folder is None else str(Path(folder) / name)


def check_board(folder: str | None, output: Path) -> None:
    """Refuses TensorBoard files in a run's folder, which is complete or not there.

    Args:
        folder: Of the TensorBoard files, if any.
        output: The run's own folder; it may lie in the other one.

    Raises:
        InvalidValue: If the first is the second, or lies in it.
    """
    if folder is not None and _whole(folder).is_relative_to(_whole(output)):
        raise _among_results(folder, output)


def check_board_of_runs(folder: str | None, runs: Path) -> None:
    """As ``check_board``, before the names of the runs are known.

    Args:
        folder: Of the TensorBoard files, if any.
        runs: Where the folders of the runs will lie, and those of TensorBoard may not.

    Raises:
        InvalidValue: If the first lies in the second.
    """
    if folder is not None and _whole(runs) in _whole(folder).parents:
        raise _among_results(folder, runs)


def _whole(folder: str | Path) -> Path:
    """Without links, as ``RunFolder`` takes it; it need not be there."""
    return Path(os.path.realpath(folder))


def _among_results(folder: str, output: Path) -> InvalidValue:
    return InvalidValue(
        f"TensorBoard files cannot lie in {output}, which is kept for results",
        received=folder,
        fix="Give training.tensorboard (or --tensorboard) a folder outside it, or leave it out",
    )


@final
class PublicTensorBoard(keras.callbacks.TensorBoard):
    """``keras.callbacks.TensorBoard`` of epsilon, the learning rate and held-out metrics.

    Guarantees:
        * No file holds a loss or metric of training rows.

    Args:
        folder: Of the event files.

    Raises:
        InvalidConfig: If the package tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise InvalidConfig(
                "TensorBoard files need the package tensorboard, which is not installed",
                received=str(folder),
                fix="Run: pip install tensorboard; or leave training.tensorboard out",
            )
        super().__init__(str(folder), write_graph=False, update_freq="epoch", profile_batch=0)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """As in Keras, without the exact numbers."""
        super().on_train_batch_end(batch, None)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """As in Keras, without the exact numbers."""
        super().on_epoch_end(epoch, public_logs(logs))


_LOWER = "Lower optimizer.learning_rate (dp_sgd.learning_rate, if that is set)"


class DivergenceCallback(keras.callbacks.Callback):
    """Ends a training after an epoch that left weights which are not finite.

    Weights are what the mechanism releases, so that looking at them costs no privacy; the rest of
    the budget is not spent on them. It comes before the backup, which keeps the last finite ones.

    Args:
        ledger: The file of the ledger, to be named.
    """

    def __init__(self, ledger: Path) -> None:
        super().__init__()
        self._ledger = ledger

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Refuses to go on.

        Raises:
            InvalidState: If a weight is not finite.
        """
        check_weights(self.model, self._ledger)


def check_weights(model: keras.Model, ledger: Path) -> None:
    """Refuses a model that no training can bring back.

    Args:
        model: Has the plan and the ledger of its training.
        ledger: The file of the ledger, to be named.

    Raises:
        InvalidState: If a weight is not finite.
    """
    # Of the layers alone: the state of the noise is no weight.
    for variable in (weight for layer in model.layers for weight in layer.weights):
        is_float = keras.backend.is_float_dtype(variable.dtype)
        if is_float and not bool(keras.ops.all(keras.ops.isfinite(variable))):
            raise _refusal(f"The weights are not finite ({variable.path})", model, ledger)


def check_scores(certificates: Certificates, model: keras.Model, ledger: Path) -> None:
    """Refuses scores of held-out rows that cannot be compared.

    Raises:
        InvalidState: If one is not finite.
    """
    bad = int(np.count_nonzero(~np.isfinite(certificates.logits).all(axis=-1)))
    if bad:
        what = f"The scores of {bad} held-out rows are not finite though the weights are"
        raise _refusal(what, model, ledger)


def _refusal(what: str, model: Any, path: Path) -> InvalidState:
    plan, ledger = model.plan, model.ledger
    spent = ledger.epsilon(plan.delta, accountant=plan.budget.accountant)
    optimizer = getattr(model, "optimizer", None)
    return InvalidState(
        f"{what}: the training diverged. Its {ledger.steps} steps spent epsilon {digits_up(spent)}"
        f" at delta {plan.delta:g}, as the ledger {path} records",
        received=None if optimizer is None else _rate(optimizer),
        fix=f"{_LOWER}, and start another run with another --output: --resume would go on with the"
        " same learning rate",
    )


def _rate(optimizer: keras.optimizers.Optimizer) -> str:
    return f"learning_rate={float(optimizer.learning_rate):g}"
