"""Applying a run's model and encoding to new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lipdp.certificates import certify
from lipdp.datasets.images import ImageStack
from lipdp.errors import InvalidData
from lipdp.experiment.features import provable_part
from lipdp.experiment.sources import read_rows
from lipdp.preprocessing import EncodedRows, Encoding, Schema, load_encoding
from lipdp.training import load_model


def predict(run: Path, data: Path) -> pd.DataFrame:
    """Predictions for the rows of a file or folder.

    Args:
        run: Folder of a finished run.
        data: A table with the columns of the run's schema, an .npz or .npy, a folder of images or
            a .zip of it; labels may be missing.

    Returns:
        One row a row of the data: ``file`` if it is an image file, ``prediction`` (a class of the
        schema), a ``score`` column for each logit, and ``certified_radius`` (L2, in the unit of the
        run's certificates) within which the prediction stays the same: 0 if its margin is within
        the rounding error, missing where nothing can be proved, of which a warning says why.

    Raises:
        InvalidData: If the folder is no run, or the rows do not fit the schema.
    """
    if not (run / "model.keras").is_file() or not (run / "schema.toml").is_file():
        raise InvalidData(
            "This folder holds no finished run",
            received=str(run),
            fix="Pass a folder written by lipdp train (with model.keras and schema.toml)",
        )
    encoding = load_encoding(run / "schema.toml")
    model = load_model(run / "model.keras", compile=False)
    columns, rows = _encoded(data, encoding, model.layers[0].compute_dtype)
    certificates = certify(*provable_part(model, rows), task=getattr(model, "task", None))
    scores = certificates.logits
    names = ["score"] if scores.shape[1] == 1 else [f"score_{c}" for c in encoding.classes]
    classes = np.asarray(encoding.classes, dtype=object)
    columns["prediction"] = classes[certificates.predictions]
    columns.update(zip(names, scores.T, strict=True))
    known = np.where(certificates.proved, certificates.radii, np.nan)
    return pd.DataFrame({**columns, "certified_radius": known})


def _encoded(data: Path, encoding: Encoding, dtype: str) -> tuple[dict[str, Any], Any]:
    """What names the rows, and the rows."""
    source = read_rows(data, encoding, labelled=False)
    if isinstance(encoding, Schema):
        return {}, encoding.encode(source).astype(dtype)
    named = {"file": source.x.names} if isinstance(source.x, ImageStack) else {}
    return named, EncodedRows(source.x, encoding, dtype)
