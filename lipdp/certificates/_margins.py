"""Logits, labels and margins as checked float64 arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.errors import InvalidData, InvalidValue


def non_negative(name: str, value: float) -> float:
    """The value as a float in ``[0, inf]``.

    Raises:
        InvalidValue: If it is negative, NaN or no number.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not number >= 0.0:
        raise InvalidValue(
            f"{name} must be a number of at least 0", received=value, fix="Pass a proved bound"
        )
    return number


def logit_matrix(logits: Any, *, one_logit: bool) -> np.ndarray:
    """Logits as float64, shape (n, K); a vector (n,) is one logit a sample if that is asked for.

    Raises:
        InvalidData: If the shape is another one.
    """
    z = np.asarray(logits, dtype=np.float64)
    if one_logit and z.ndim == 1:
        z = z[:, None]
    if z.ndim != 2 or z.shape[1] == 0 or (one_logit and z.shape[1] != 1):
        wanted = "(n,) or (n, 1)" if one_logit else "(n, K)"
        raise InvalidData(
            f"The logits must have shape {wanted}",
            received=z.shape,
            fix='Use kind="binary" for one logit a sample and a row of K logits otherwise',
        )
    return z


def predicted_ids(logits: np.ndarray) -> np.ndarray:
    """Predicted class of each row: the greatest logit, or whether the single one is positive."""
    if logits.shape[1] == 1:
        return (logits[:, 0] > 0.0).astype(np.int64)
    return logits.argmax(axis=1)


def class_ids(labels: Any, logits: np.ndarray) -> np.ndarray:
    """Class ids, int64, shape (n,), from ids, one-hot rows or (None) the predictions.

    Raises:
        InvalidData: If the labels are not classes of these logits.
    """
    if labels is None:
        return predicted_ids(logits)
    y = np.asarray(labels)
    rows, classes = len(logits), max(2, logits.shape[1])
    if y.shape == (rows, 1):
        y = y[:, 0]
    if y.shape == (rows, classes):
        y = _from_one_hot(y)
    if y.shape != (rows,):
        raise InvalidData(
            f"The labels must have shape ({rows},) or ({rows}, {classes})",
            received=y.shape,
            fix="Pass one class id or one one-hot row a sample",
        )
    return _checked_ids(y, classes)


def label_matrix(labels: Any, logits: np.ndarray) -> np.ndarray:
    """0 or 1 for each label, int64, shape (n, K), as given or (None) as predicted.

    Raises:
        InvalidData: If the labels are not such a matrix.
    """
    if labels is None:
        return (logits > 0.0).astype(np.int64)
    y = np.asarray(labels)
    if y.ndim == 1 and logits.shape[1] == 1:
        y = y[:, None]
    if y.shape != logits.shape or not (y.dtype.kind in "biuf" and ((y == 0) | (y == 1)).all()):
        raise InvalidData(
            f"The labels of a multilabel model must be 0 or 1, shape {logits.shape}",
            received=y.shape,
            fix="Pass one column a label",
        )
    return y.astype(np.int64)


def logit_margins(logits: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """``z_k - z_i`` for class k of each row, shape (n, K), infinite at i = k; ``(n, 1)`` if K = 1.

    Each entry carries one float64 rounding. A row with a non-finite logit is ``-inf``.
    """
    if logits.shape[1] == 1:
        margins = np.where(ids[:, None] == 1, logits, -logits)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            margins = np.take_along_axis(logits, ids[:, None], axis=1) - logits
        np.put_along_axis(margins, ids[:, None], np.inf, axis=1)
    finite = np.isfinite(logits).all(axis=1, keepdims=True)
    return np.where(finite, margins, -np.inf)


def _from_one_hot(rows: np.ndarray) -> np.ndarray:
    if not (((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all()):
        raise InvalidData(
            "Labels with one column a class must be one-hot",
            fix="Pass class ids instead; if a row may have several labels, certify each label by "
            'certify(model, x, y, task="multilabel")',
        )
    return rows.argmax(axis=1)


def _checked_ids(y: np.ndarray, classes: int) -> np.ndarray:
    numeric = y.dtype.kind in "biuf"
    if not (numeric and np.isin(y, np.arange(classes)).all()):
        raise InvalidData(
            f"The labels must be class ids 0 to {classes - 1}",
            received=y[:8].tolist(),
            fix="Map the labels to ids first (binary labels are 0 and 1)",
        )
    return y.astype(np.int64)
