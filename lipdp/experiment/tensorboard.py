"""Keras' TensorBoard, of what may be published."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, final

import keras

from lipdp.errors import InvalidConfig
from lipdp.experiment.progress import public_logs


def public_boards(folder: str | None) -> list[keras.callbacks.Callback]:
    """The callback that a configuration asks for, if it asks for one."""
    return [] if folder is None else [PublicTensorBoard(Path(folder))]


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
