"""Rows projected on a Euclidean ball, without overflow and without 0 / 0."""

from __future__ import annotations

from typing import Any

from keras import ops


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
