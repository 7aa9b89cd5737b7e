"""Saving models for release, and loading them with everything of this package registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from lipdp.errors import InvalidData
from lipdp.training.saving import check_format


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
