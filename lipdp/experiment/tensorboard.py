"""Keras' TensorBoard, of what may be published."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any, final

import keras

from lipdp.errors import InvalidConfig, InvalidValue
from lipdp.experiment.progress import public_logs


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
