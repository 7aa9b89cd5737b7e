"""Labels checked on the host before training; messages count rows and show no record."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.errors import InvalidData
from lipdp.losses._limits import LARGEST, SIMPLEX_NEGATIVE, SIMPLEX_SUM_ERROR


def check_classes(labels: Any, classes: int) -> None:
    """Class ids, (n,) or (n, 1), or rows of the simplex, (n, K).

    Raises:
        InvalidData: If they are something else.
    """
    rows = numbers(labels, (1, classes))
    if rows.shape[1] == 1:
        known = (rows >= 0) & (rows < classes) & (np.floor(rows) == rows)
        _refuse(~known, f"hold no class id, a whole number in [0, {classes})", "Number the classes")
        return
    with np.errstate(over="ignore", invalid="ignore"):
        off = ~(np.abs(rows.sum(axis=1) - 1.0) <= SIMPLEX_SUM_ERROR)
    bad = off | ~np.all(rows >= -SIMPLEX_NEGATIVE, axis=1)
    _refuse(bad, "are not on the simplex (weights at least 0, of sum 1)", "Divide by their sum")


def check_probabilities(labels: Any, columns: int) -> None:
    """Numbers in [0, 1], shape (n, columns), or (n,) for one column.

    Raises:
        InvalidData: If they are something else.
    """
    rows = numbers(labels, (columns,))
    inside = (rows >= 0.0) & (rows <= 1.0)
    _refuse(~inside, "hold a number outside [0, 1]", "Use 0, 1, or a probability between")


def check_signs(labels: Any) -> None:
    """Numbers in [0, 1], or -1, which is read as 0; shape (n,) or (n, 1).

    Raises:
        InvalidData: If they are something else.
    """
    rows = numbers(labels, (1,))
    known = ((rows >= 0.0) & (rows <= 1.0)) | (rows == -1.0)
    _refuse(~known, "hold a number that is neither -1 nor in [0, 1]", "Use labels 0 and 1")


def check_targets(labels: Any, columns: int) -> None:
    """Real numbers of size at most 1e30, shape (n, columns), or (n,) for one column.

    Raises:
        InvalidData: If they are something else.
    """
    bad = ~(np.abs(numbers(labels, (columns,))) <= LARGEST)
    _refuse(bad, "hold a number that is not finite, or above 1e30", "Remove or impute these rows")


def numbers(labels: Any, columns: tuple[int, ...]) -> np.ndarray:
    """Labels as float64, shape (n, C) with C one of ``columns``.

    Raises:
        InvalidData: If they are no numbers or of another shape.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "biuf":
        raise InvalidData(
            "The labels are not numbers", received=str(array.dtype), fix="Encode them as numbers"
        )
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or rows.shape[1] not in columns:
        shapes = " or ".join(f"(n, {c})" for c in columns)
        raise InvalidData(
            "The labels do not have the shape that the loss takes",
            received=array.shape,
            fix=f"Use labels of shape {'(n,) or ' if 1 in columns else ''}{shapes}",
        )
    return rows.astype("float64")


def _refuse(bad: np.ndarray, what: str, fix: str) -> None:
    count = int(np.sum(bad if bad.ndim == 1 else bad.any(axis=1)))
    if count:
        raise InvalidData(f"{count} of {len(bad)} rows of labels {what}", fix=fix)
