"""Stopping a training early, so that it can go on later."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import keras


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
        """Stops if that is wanted, never between the parts of a batch."""
        slots, steps = self.model.plan.slots, self.model.plan.steps_per_epoch
        done, rest = divmod(batch + 1, slots.micro_batches)
        wanted = self._stopper is not None and self._stopper.wanted
        # Where the budget has just ended there is nothing left to go on with.
        if not wanted or rest or self.model.stop_training:
            return
        self.inside_epoch = done < steps
        self.stopped = self.inside_epoch or self._epoch + 1 < self.params["epochs"]
        self.model.stop_training = self.stopped
