"""A check of the user's own callbacks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import keras

from lipdp.errors import UnsafeSetting

#: Beside a backup the ledger is kept in its folder.
_FILE = "privacy_ledger.json"

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


def ledger_path(callbacks: Iterable[keras.callbacks.Callback], given: object) -> Path | None:
    """Where the ledger is kept while training: the file that was given, or beside a backup.

    A run that is resumed from a backup has lost the steps since then, but not what they cost.
    """
    if given is not None:
        return Path(str(given))
    for callback in callbacks:
        if isinstance(callback, keras.callbacks.BackupAndRestore):
            return Path(callback.backup_dir) / _FILE
    return None
