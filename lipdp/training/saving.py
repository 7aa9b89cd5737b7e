"""Files of models: with the ledger, without the noise state, loaded whole or not at all."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import keras
import numpy as np

from lipdp.errors import InvalidData, InvalidState, UnsafeSetting
from lipdp.losses.base import LipschitzLoss, Reading
from lipdp.privacy import PrivacyBudget, PrivacyLedger
from lipdp.training.state import PrivateState, read_ledger, write_ledger

if TYPE_CHECKING:
    from keras import Model as _Base
else:
    # At run time the mixin stands beside keras.Model in the bases and cannot inherit from it.
    _Base = object

_KEY = "lipdp_shapes"
_TASK = "lipdp_task"
_CLONED = "lipdp>BudgetOfModel"
_LEGACY = (".h5", ".hdf5")


class SavedWithLedger(_Base):
    """Mixin over ``keras.Model``: what is saved and loaded.

    Guarantees:
        * No file holds the noise state.
        * A file that is refused changes neither the model nor its ledger.
        * Loading never makes the ledger smaller.
    """

    if TYPE_CHECKING:

        @property
        def _private(self) -> PrivateState: ...

    @property
    def task(self) -> Reading | None:
        """What the outputs mean, by the loss of ``compile`` or as saved with the weights.

        None if neither says it. Certificates depend on it: see ``lipdp.certify``.
        """
        loss = getattr(self, "loss", None)
        if not isinstance(loss, LipschitzLoss) or not self.built or loss.positions is not None:
            return self._private.task
        return loss.task_for(int(self.output_shape[-1]))

    def save(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """As in Keras, with the ledger.

        Args:
            filepath: A ``.keras`` file.
            *args: Keras' other options.
            **kwargs: Keras' other options.

        Raises:
            UnsafeSetting: If a private model is to become a legacy HDF5 file.
        """
        if self._private.budget is not None:
            check_format(filepath)
        super().save(filepath, *args, **kwargs)

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, **kwargs: Any) -> None:
        """As in Keras, with the ledger: the larger count wins.

        Args:
            filepath: A ``.weights.h5``, ``.weights.json`` or ``.keras`` file. Other files have no
                ledger, so that the history becomes unknown.
            skip_mismatch: As in Keras; the ledger is taken over whatever is skipped.
            **kwargs: Keras' other options.

        Raises:
            ValueError: If the file is of another model, or its ledger was edited.
            OSError: If it is no HDF5 file, or was cut.
        """
        before = self._private.ledger
        with _unchanged_on_error(self, self._private, filepath):
            super().load_weights(filepath, skip_mismatch=skip_mismatch, **kwargs)
        if self._private.ledger is before:
            # Keras read no ledger: a legacy file, or an option that left the model's own part out.
            before.mark_unknown()

    def save_own_variables(self, store: Any) -> None:
        """Saves the ledger beside the weights."""
        super().save_own_variables(store)
        self._private.gather(self)
        write_ledger(self._private.ledger, store)
        store[_KEY] = np.frombuffer(_shapes(self).encode("utf-8"), dtype=np.uint8)
        if self.task is not None:
            store[_TASK] = np.frombuffer(self.task.encode("utf-8"), dtype=np.uint8)

    def load_own_variables(self, store: Any) -> None:
        """Loads the ledger: the larger count wins; without one the history is unknown.

        Raises:
            InvalidData: If the ledger was edited, or the file is of a model with other weights.
        """
        self._private.ledger = read_ledger(self._private.ledger, store)
        keys = set(store.keys())
        if _KEY not in keys:
            return
        saved = np.asarray(store[_KEY]).tobytes().decode("utf-8", errors="replace")
        if saved != _shapes(self):
            raise InvalidData(
                f"The weights are of another model. The shapes of this one are {_shapes(self)}",
                received=saved,
                fix="Load them into the model that they were saved from",
            )
        self._private.task = _read_task(store) if _TASK in keys else None


def _read_task(store: Any) -> Reading | None:
    text = np.asarray(store[_TASK]).tobytes().decode("utf-8", errors="replace")
    return next((task for task in get_args(Reading) if task == text), None)


@keras.saving.register_keras_serializable(package="lipdp")
class BudgetOfModel:
    """A budget among the saved arguments of ``compile``, which plain Keras models cannot take.

    ``keras.models.clone_model`` makes a plain Sequential and compiles it with them.

    Args:
        config: Of the budget.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    def get_config(self) -> dict[str, Any]:
        """That of the budget."""
        return self._config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> BudgetOfModel:
        """Refuses: only models of this package read it, by ``budget_of``.

        Raises:
            InvalidState: Always.
        """
        raise InvalidState(
            "A plain Keras model, as clone_model makes of a Sequential, cannot be compiled with a"
            " privacy budget, and its training would not be private",
            received=config,
            fix="Copy with type(model).from_config(model.get_config()), then compile(...,"
            " privacy=...); or clone before compile",
        )


def saved_budget(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a budget as Keras saves it."""
    return keras.saving.serialize_keras_object(BudgetOfModel(config))


def budget_of(saved: dict[str, Any] | None) -> PrivacyBudget | None:
    """Inverse of ``saved_budget``; files may hold the configuration alone, or None."""
    if saved is None:
        return None
    config = saved["config"] if saved.get("registered_name") == _CLONED else saved
    return PrivacyBudget.from_config(keras.saving.deserialize_keras_object(config))


def check_format(path: Any) -> None:
    """Refuses legacy HDF5 files of whole models.

    Raises:
        UnsafeSetting: If the file would be one.
    """
    if str(path).endswith(_LEGACY):
        raise UnsafeSetting(
            "A legacy HDF5 file would hold the noise state, and no ledger",
            received=str(path),
            fix="Use a name that ends in .keras",
        )


def _shapes(model: keras.Model) -> str:
    """The shapes of all weights; Keras alone overlooks weights that only the file has."""
    return json.dumps([list(weight.shape) for weight in model.weights])


@contextlib.contextmanager
def _unchanged_on_error(model: keras.Model, state: PrivateState, path: Any) -> Iterator[None]:
    """Puts weights, optimizer and ledger back if they were loaded in part."""
    state.gather(model)
    variables = [*model.variables, *_optimizer_variables(model)]
    before = [keras.ops.convert_to_numpy(variable).copy() for variable in variables]
    ledger = PrivacyLedger.from_json(state.ledger.to_json())
    try:
        yield
    except Exception as error:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
        state.ledger = ledger
        state.mark(model)
        if isinstance(error, (ValueError, FileNotFoundError)):
            raise
        text = f"{path} holds no weights that can be loaded: {error!r}"
        # Keras' BackupAndRestore tries its older backup after an OSError.
        if isinstance(error, OSError):
            raise OSError(f"{text}. It was cut or damaged: restore a copy, or remove it") from error
        raise InvalidData(text, fix="Restore a copy of the file") from error


def _optimizer_variables(model: keras.Model) -> list[Any]:
    optimizer = getattr(model, "optimizer", None)
    # Of a private optimizer; its own variables are the noise state, which no file holds.
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return [] if inner is None else list(inner.variables)


def load_model(path: str | Path, **kwargs: Any) -> keras.Model:
    """Loads a ``.keras`` file with its ledger, ready to predict, certify and train on.

    A new noise seed is drawn: none was saved.

    Args:
        path: The file.
        **kwargs: Options of ``keras.models.load_model``.

    Raises:
        InvalidData: If there is no such file, or it is no whole Keras model, or its ledger was
            edited.
    """
    if not Path(path).is_file():
        raise InvalidData("There is no model file here", received=str(path))
    try:
        check_format(path)
        return keras.models.load_model(path, **kwargs)
    except InvalidData:
        raise
    # A damaged archive breaks anywhere: in zipfile, zlib, h5py, json or a class of Keras.
    except Exception as error:
        raise InvalidData(
            f"The file is no readable Keras model: {error}",
            received=str(path),
            fix="Pass a .keras file written by model.save()",
        ) from error


def save_for_release(model: keras.Model, path: str | Path) -> None:
    """Saves weights, architecture and ledger; optimizer and compilation stay out.

    What the outputs mean by the loss (``model.task``), on which certificates depend, is kept. Keras
    writes the optimizer's state into every ``.keras`` file of a compiled model, so a copy
    that was never compiled is saved.

    Args:
        model: A model of ``lipdp.Sequential`` or ``lipdp.Model``.
        path: A ``.keras`` file.
    """
    released = type(model).from_config(model.get_config())
    released.set_weights(model.get_weights())
    released._private.ledger = model.ledger
    released._private.task = model.task
    released.save(path)
