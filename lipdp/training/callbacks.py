"""A check of the user's own callbacks."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from pathlib import Path

import keras

from lipdp.errors import UnsafeSetting
from lipdp.training.ledger_file import check_backup, check_metadata
from lipdp.training.saving import check_format

#: A backup has its ledger beside its folder, and not in it: Keras deletes the folder in no
#: particular order, and users delete one that was cut while it was written.
_SUFFIX = ".privacy_ledger.json"

#: Public numbers that the name of a checkpoint may hold.
_NAMED = frozenset({"batch", "epoch", "epsilon"})

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


#: Those that write what Keras logs of training rows.
_WRITERS = (keras.callbacks.CSVLogger, keras.callbacks.TensorBoard)


def unknown_callbacks(callbacks: Iterable[keras.callbacks.Callback]) -> tuple[str, ...]:
    """What the statement must name as not covered: own callbacks, and files of exact losses.

    Raises:
        UnsafeSetting: If a callback decides by a quantity of the training rows without noise.
    """
    names = []
    for callback in callbacks:
        _check_callback(callback)
        own = type(callback).__module__.startswith("lipdp.")
        if own:
            continue
        name = type(callback).__name__
        if type(callback) not in _KNOWN:
            names.append(f"the callback {name}")
        if isinstance(callback, _WRITERS):
            names.append(f"the files of {name}, which hold exact training losses")
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
    if name == "OrbaxCheckpoint":
        raise UnsafeSetting(
            "OrbaxCheckpoint saves the noise state, and no ledger",
            received=name,
            fix="Use ModelCheckpoint or BackupAndRestore",
        )
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        _check_checkpoint(callback)
    monitor = _monitored(callback)
    if monitor is not None and not monitor.startswith("val_"):
        raise UnsafeSetting(
            f"{name} decides by {monitor!r}, a quantity of the private rows without noise",
            received=monitor,
            fix="Monitor a validation metric, such as monitor='val_loss', and pass validation_data",
        )


def _check_checkpoint(callback: keras.callbacks.ModelCheckpoint) -> None:
    path = str(callback.filepath)
    if not callback.save_weights_only:
        check_format(path)
    private = [name for name in _fields(path) if name not in _NAMED and name[:4] != "val_"]
    if private:
        raise UnsafeSetting(
            f"Names of files would hold {private[0]!r}, a quantity of the private rows without"
            " noise",
            received=path,
            fix="Use {epoch}, {batch}, {epsilon} and those that begin with val_",
        )


def _fields(text: str) -> Iterator[str]:
    """What a format string asks for; a width may ask too."""
    for _, name, width, _ in string.Formatter().parse(text):
        if name is not None:
            yield re.split(r"[.\[]", name)[0]
            yield from _fields(width or "")


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

    Raises:
        UnsafeSetting: If the backup is not in a local folder, or has another ledger beside it.
        InvalidData: If a backup was cut, or the ledger does not hold what it holds.
    """
    folders = [str(callback.backup_dir) for callback in _backups(callbacks)]
    if folders and given is None and _is_remote(folders[0]):
        raise UnsafeSetting(
            "Beside a remote backup the ledger cannot be made durable before each step",
            received=folders[0],
            fix="Pass ledger_file=, a local file that outlives the machine",
        )
    local = [Path(folder) for folder in folders if not _is_remote(folder)]
    path = Path(str(given)) if given is not None else _beside(local[0]) if folders else None
    for folder in local:
        check_metadata(folder)
        if path is not None:
            _check_alone(folder, path)
            check_backup(folder, path)
    return path


def _beside(backup: Path) -> Path:
    return backup.with_name(backup.name + _SUFFIX)


def _check_alone(backup: Path, path: Path) -> None:
    """Refuses a second ledger of one backup: nobody would know later which one was ahead."""
    beside = _beside(backup)
    if beside.exists() and beside.resolve() != path.resolve():
        raise UnsafeSetting(
            "A ledger of an earlier run lies beside the backup, and this run would keep another",
            received={"beside": str(beside), "asked for": str(path)},
            fix=f"Pass ledger_file={str(beside)!r}, or move that file to where this run keeps its"
            " own",
        )


def has_remote_backup(callbacks: Iterable[keras.callbacks.Callback]) -> bool:
    """Whether a callback may restore what only Keras can look at."""
    return any(_is_remote(str(callback.backup_dir)) for callback in _backups(callbacks))


def _is_remote(folder: str) -> bool:
    return "://" in folder


def deletes_backup(callbacks: Iterable[keras.callbacks.Callback]) -> bool:
    """Whether no backup is left after a complete training."""
    return all(callback.delete_checkpoint for callback in _backups(callbacks))


def _backups(
    callbacks: Iterable[keras.callbacks.Callback],
) -> list[keras.callbacks.BackupAndRestore]:
    return [c for c in callbacks if isinstance(c, keras.callbacks.BackupAndRestore)]
