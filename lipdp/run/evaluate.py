"""What a model reaches on held-out rows, what plain regression does, and predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from lipdp.bounds import numerical_error
from lipdp.certificates import (
    Certificates,
    UncertifiedWarning,
    auroc,
    certified_accuracy,
    certified_auroc,
    certify,
    macro_auroc,
)
from lipdp.config import load_config
from lipdp.datasets.images import ImageStack
from lipdp.errors import InvalidData
from lipdp.preprocessing import EncodedRows, Encoding, Schema, limited, load_encoding
from lipdp.results import Certified, TestMetrics
from lipdp.run.data import Rows, prepare_rows, read_rows
from lipdp.run.features import provable_part, with_facts
from lipdp.training import load_model


def held_out_metrics(certificates: Certificates, rows: Rows) -> TestMetrics:
    """Exact metrics on the held-out rows.

    Args:
        certificates: Of these rows.
        rows: The rows of the run.
    """
    labels = rows.y_test
    counts = pd.Series(labels).value_counts(normalize=True)
    logits = certificates.logits
    binary = logits.shape[1] == 1
    return TestMetrics(
        rows=len(labels),
        accuracy=float((certificates.predictions == labels).mean()),
        auroc=auroc(logits[:, 0], labels) if binary else macro_auroc(logits, labels),
        majority_accuracy=float(counts.iloc[0]),
    )


def certificates_of(model: keras.Model, x: Any, y: Any = None) -> Certificates:
    """As ``certify``, without its warning: whoever calls this says the reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        return certify(model, x, y, task=getattr(model, "task", None))


def certified_at(
    model: keras.Model, certificates: Certificates, rows: Rows, radii: Sequence[float]
) -> list[Certified]:
    """What stays right at each radius; empty if nothing can be proved about any row.

    Args:
        model: The model.
        certificates: Of the held-out rows.
        rows: The rows of the run.
        radii: In the unit of the rows' encoding.
    """
    if not certificates.proved.any():
        return []
    error = numerical_error(model)
    return [_certified(certificates, rows, radius, error) for radius in radii]


def measure_on_test_rows(run: Path) -> tuple[TestMetrics, list[Certified]]:
    """Measures a finished run that held out validation rows on the test rows.

    Args:
        run: Its folder.
    """
    config = load_config(run / "config.toml", ["data.validation_fraction="])
    rows = prepare_rows(config)
    model = load_model(run / "model.keras", compile=False)
    part, x_test = provable_part(model, rows.x_test)
    certificates = certificates_of(part, x_test, rows.y_test)
    rows, radii = with_facts(config, rows), config.certificates.radii
    return held_out_metrics(certificates, rows), certified_at(part, certificates, rows, radii)


def _certified(certificates: Certificates, rows: Rows, radius: float, error: float) -> Certified:
    binary = certificates.logits.shape[1] == 1
    everywhere = math.isfinite(certificates.lipschitz) and math.isfinite(error)
    scores = certificates.logits[:, 0]
    return Certified(
        radius=radius,
        unit=rows.encoding.unit,
        accuracy=certified_accuracy(certificates.radii, radius),
        auroc=certified_auroc(
            scores, rows.y_test, lipschitz=certificates.lipschitz, radius=radius, error=error
        )
        if binary and everywhere
        else None,
    )


_RIDGE = 1e-6
#: Rows times features that are fitted at most, 80 MB; of more rows a part.
_MOST = 10_000_000
#: Numbers that are read at a time.
_CHUNK = 1_000_000


def logistic_regression(rows: Rows) -> dict[str, float | None]:
    """Held-out accuracy and AUROC of a logistic regression without privacy.

    Fitted by L-BFGS to the mean cross-entropy with a ridge of 1e-6 against the flat directions of
    one-hot columns. It reads the training rows exactly: never publish it beside epsilon. Of many
    large rows a part is enough for it, so that it takes seconds; ``rows`` says how many.
    """
    classes, count = len(rows.encoding.classes), len(rows.x_train)
    most = max(100, _MOST // rows.encoding.num_features)
    kept = np.arange(count) if count <= most else limited(count, most, seed=0)
    x = np.empty((len(kept), rows.encoding.num_features))
    for part in _parts(x.shape):
        x[part] = rows.x_train[kept[part]]
    weights = _fit(x, np.eye(classes)[rows.y_train[kept]])
    parts = _parts((len(rows.x_test), x.shape[1]))
    logits = np.concatenate([rows.x_test[part] @ weights for part in parts])
    accuracy = float((logits.argmax(axis=1) == rows.y_test).mean())
    return {"accuracy": accuracy, "auroc": _auroc(logits, rows.y_test), "rows": float(len(kept))}


def _parts(shape: tuple[int, ...]) -> list[slice]:
    """Slices of rows that are no more numbers than a chunk."""
    step = max(1, _CHUNK // shape[1])
    return [slice(start, start + step) for start in range(0, shape[0], step)]


def _fit(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    shape = (x.shape[1], targets.shape[1])

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        logits = x @ weights
        loss = -np.sum(targets * log_softmax(logits, axis=1)) / len(x)
        gradient = x.T @ (softmax(logits, axis=1) - targets) / len(x) + _RIDGE * weights
        return loss + 0.5 * _RIDGE * float(flat @ flat), gradient.ravel()

    start = np.zeros(shape[0] * shape[1])
    fit = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return fit.x.reshape(shape)


def _auroc(logits: np.ndarray, labels: np.ndarray) -> float | None:
    if logits.shape[1] == 2:
        return auroc(logits[:, 1] - logits[:, 0], labels)
    return macro_auroc(logits, labels)


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
