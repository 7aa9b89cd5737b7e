"""Labels forced into their set inside the graph, whatever the data hold."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.losses._ball import project_rows
from lipdp.losses._explicit import as_matrix
from lipdp.losses._limits import LARGEST, SIMPLEX_NEGATIVE, SIMPLEX_SUM_ERROR


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
