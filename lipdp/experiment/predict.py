"""Applying a run's model and encoding to new rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from lipdp.certificates import certify
from lipdp.datasets import read_table
from lipdp.errors import InvalidData
from lipdp.preprocessing import load_schema
from lipdp.training import load_model


def predict(run: Path, data: Path) -> pd.DataFrame:
    """Predictions for the rows of a file.

    Args:
        run: Folder of a finished run.
        data: CSV or Parquet file with the columns of the run's schema; the target may be missing.

    Returns:
        One row a row of the file: ``prediction`` (a class of the schema), a ``score`` column for
        each logit, and ``certified_radius`` (L2, in units of the encoded row) within which the
        prediction stays the same.

    Raises:
        InvalidData: If the folder is no run, or the rows do not fit the schema.
    """
    if not (run / "model.keras").is_file() or not (run / "schema.toml").is_file():
        raise InvalidData(
            "This folder holds no finished run",
            received=str(run),
            fix="Pass a folder written by lipdp train (with model.keras and schema.toml)",
        )
    schema = load_schema(run / "schema.toml")
    model = load_model(run / "model.keras", compile=False)
    rows = schema.encode(read_table(data)).astype(model.layers[0].compute_dtype)
    certificates = certify(model, rows)
    scores = certificates.logits
    names = ["score"] if scores.shape[1] == 1 else [f"score_{c}" for c in schema.classes]
    columns: dict[str, np.ndarray] = {
        "prediction": np.asarray(schema.classes, dtype=object)[certificates.predictions]
    }
    columns.update(zip(names, scores.T, strict=True))
    return pd.DataFrame({**columns, "certified_radius": certificates.radii})
