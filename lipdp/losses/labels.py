"""Labels: checked on the host before training, and forced into their set inside the graph."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidData, InvalidValue

#: Greatest number that formulas see; it and its reciprocal are normal in float32.
LARGEST = 1e30

#: How far the sum of a row of label weights may be from 1, by rounding.
SIMPLEX_SUM_ERROR = 1e-3

#: How far below 0 a label weight may be, by rounding.
SIMPLEX_NEGATIVE = 1e-6


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


def larger(a: Any, b: Any) -> Any:
    """The larger of two tensors, entrywise; ``ops.maximum`` shortens float64 on PyTorch."""
    return ops.where(a > b, a, b)


def row_norms(rows: Any) -> Any:
    """Euclidean norms (n, 1) of rows (n, K) whose squares do not overflow."""
    return ops.sqrt(ops.sum(rows * rows, axis=-1, keepdims=True))


def project_rows(rows: Any, radius: float) -> Any:
    """Each row scaled down to the ball; a row inside stays as it is.

    The computed norm is right to ``gamma(K + 3)`` and five operations scale the row, so results
    have norm at most ``radius * (1 + gamma(K + 8))``.

    Args:
        rows: Entries in [-1e30, 1e30], shape (n, K).
        radius: In [1e-12, 1e12].
    """
    limit = ops.full_like(rows[:, :1], radius)
    # Entries of rows / scale lie in [-1, 1]: the norm is taken without overflow.
    scale = larger(ops.max(ops.abs(rows), axis=-1, keepdims=True), limit)
    scaled = rows / scale
    norm = row_norms(scaled)
    shortened = scaled / larger(norm, limit / scale) * limit
    return ops.where(norm * scale <= limit, rows, shortened)


def class_distribution(labels: Any, logits: Any) -> tuple[Any, Any]:
    """A point of the simplex a sample, and whether there is one.

    Ids, shape (n,) or (n, 1), must be whole numbers in [0, K). Weights, shape (n, K), must lie on
    the simplex up to rounding: entries at least -1e-6, sum within 1e-3 of 1; they are clipped at 0
    and divided by their sum, so that the point is exact. Any other row is invalid.

    Args:
        labels: Ids or weights.
        logits: Shape (n, K) with K > 1.

    Returns:
        Distributions (n, K) in the dtype of the logits, and validity (n,).

    Raises:
        InvalidValue: If the shape fits neither reading.
    """
    labels = _columns(labels, logits)
    if labels.shape[-1] == 1:
        return _from_ids(labels[:, 0], int(logits.shape[-1]))
    return _from_weights(labels)


def class_signs(labels: Any, logits: Any) -> tuple[Any, Any]:
    """One-against-all labels in [-1, 1], shape (n, K), and validity (n,).

    With one logit the label is 0 or 1 and means -1 or 1; values between are kept between, values
    outside are clipped, and one that is not finite is invalid.
    """
    if logits.shape[-1] == 1:
        probability, valid = probabilities(labels, logits)
    else:
        probability, valid = class_distribution(labels, logits)
    return 2.0 * probability - 1.0, valid


def probabilities(labels: Any, logits: Any) -> tuple[Any, Any]:
    """Labels of the shape of the logits, clipped to [0, 1], and validity (n,)."""
    labels, valid = finite_targets(labels, logits)
    return ops.clip(labels, 0.0, 1.0), valid


def finite_targets(labels: Any, logits: Any) -> tuple[Any, Any]:
    """Targets of the shape of the logits, clipped to 1e30; rows not finite are 0 and invalid."""
    labels = _columns(labels, logits)
    if labels.shape[-1] != logits.shape[-1]:
        raise _misfit(labels, logits)
    valid = ops.all(ops.isfinite(labels), axis=-1)
    labels = ops.where(valid[:, None], labels, ops.zeros_like(labels))
    return ops.clip(labels, -LARGEST, LARGEST), valid


def ball_targets(labels: Any, logits: Any, radius: float) -> tuple[Any, Any]:
    """Targets of the shape of the logits in the ball ``||y||_2 <= radius``, and validity (n,)."""
    targets, valid = finite_targets(labels, logits)
    return project_rows(targets, radius), valid


def _columns(labels: Any, logits: Any) -> Any:
    labels = ops.cast(ops.convert_to_tensor(labels), logits.dtype)
    labels = as_matrix(labels)
    if labels.shape[-1] not in (1, logits.shape[-1]):
        raise _misfit(labels, logits)
    return labels


def _misfit(labels: Any, logits: Any) -> InvalidValue:
    return InvalidValue(
        "The shape of the labels does not fit the logits",
        received=(tuple(labels.shape), tuple(logits.shape)),
        fix="Use labels of shape (n,), or of the shape of the logits",
    )


def _from_ids(ids: Any, classes: int) -> tuple[Any, Any]:
    in_range = ops.logical_and(ids >= 0, ids < classes)
    valid = ops.logical_and(in_range, ops.floor(ids) == ids)
    safe = ops.cast(ops.where(valid, ids, ops.zeros_like(ids)), "int32")
    return ops.one_hot(safe, classes, dtype=keras.backend.standardize_dtype(ids.dtype)), valid


def _from_weights(weights: Any) -> tuple[Any, Any]:
    finite = ops.all(ops.isfinite(weights), axis=-1, keepdims=True)
    weights = ops.clip(ops.where(finite, weights, ops.zeros_like(weights)), -LARGEST, LARGEST)
    off = ops.abs(ops.sum(weights, axis=-1, keepdims=True) - 1.0)
    least = ops.min(weights, axis=-1, keepdims=True)
    valid = ops.logical_and(off <= SIMPLEX_SUM_ERROR, least >= -SIMPLEX_NEGATIVE)
    safe = ops.where(valid, weights, ops.ones_like(weights))
    safe = ops.where(safe > 0, safe, ops.zeros_like(safe))
    return safe / ops.sum(safe, axis=-1, keepdims=True), valid[:, 0]


def as_matrix(tensor: Any) -> Any:
    """Shape (n, K) from (n, K), or (n, 1) from (n,).

    Raises:
        InvalidValue: If the rank is neither 1 nor 2.
    """
    rank = len(tensor.shape)
    if rank == 1:
        return ops.expand_dims(tensor, axis=-1)
    if rank != 2:
        raise InvalidValue(
            "A loss takes one vector of logits a sample",
            received=tuple(tensor.shape),
            fix="Flatten or pool the output of the model to shape (n, K)",
        )
    return tensor
