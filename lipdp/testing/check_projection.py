"""Hostile weights against the norm ball that a projection promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from lipdp.testing.base import Comparison, Tightness, adversarial_weights

#: Room for the rounding of the singular values that the harness itself computes, in float64.
_ORACLE_ROUNDING = 1e-12
_SIZES = (1e-30, 1e-6, 1.0, 1.999, 1e3, 1e15, 1e30)


def check_projection(
    projection: Any,
    shape: Sequence[int],
    *,
    dtype: str = "float32",
    matrix: Callable[[np.ndarray], np.ndarray] | None = None,
    norm: Callable[[np.ndarray], float] | None = None,
    seed: int = 0,
) -> Tightness:
    """Searches for a weight that a projection leaves outside its ball.

    Random, constant, rank-one, spiky, graded, orthogonal and zero weights of sizes from 1e-30 to
    1e30 are projected, and projected again. What comes back must have the shape and the dtype, be
    finite, and keep ``bound_of(w) <= norm_bound`` with no tolerance; its norm (its largest singular
    value unless ``norm`` is another one), computed here, must be at most ``bound_of(w)``, and its
    largest singular value at most ``spectral_bound``.

    Args:
        projection: A ``Projection``.
        shape: Of the weight.
        dtype: Of the weight.
        matrix: The matrix of a weight whose spectral norm is meant; all axes but the last are
            flattened if None.
        norm: The norm of a weight that the projection bounds, if not the spectral one.
        seed: Of the random weights.

    Returns:
        The best ratios found.

    Raises:
        BoundViolation: If a weight escapes, or ``bound_of`` is no bound.
    """
    result = Comparison(type(projection).__name__)

    def spectral(weight: np.ndarray) -> float:
        flat = matrix(weight) if matrix else weight.reshape(-1, weight.shape[-1])
        return float(np.linalg.norm(flat, 2))

    norms = (norm or spectral, spectral if matrix is None else None)
    for start in _weights(tuple(shape), np.random.default_rng(seed)):
        weight = start.astype(dtype)
        for quantity in ("norm", "norm of a member"):
            weight = _projected(projection, weight, result)
            _compare(projection, weight, norms, quantity, result)
    return result.tightness()


def _weights(shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[np.ndarray]:
    for size in _SIZES:
        for _, weight in adversarial_weights(shape, rng, size):
            yield weight.reshape(shape)
    yield np.where(np.arange(int(np.prod(shape))) % 2, 1e15, 1e-15).reshape(shape)
    yield _close_pair(shape)


def _close_pair(shape: tuple[int, ...]) -> np.ndarray:
    """Nearly equal largest singular values, the largest one across constant vectors."""
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    weight = np.zeros((rows, columns))
    weight[0, 0] = 2.999
    if rows > 2 and columns > 2:
        left, right = np.zeros(rows), np.zeros(columns)
        left[1:3], right[1:3] = (1.0, -1.0), (1.0, -1.0)
        weight += 1.5 * np.outer(left, right)
    return weight.reshape(shape)


def _projected(projection: Any, weight: np.ndarray, result: Comparison) -> np.ndarray:
    projected = np.asarray(ops.convert_to_numpy(projection(ops.convert_to_tensor(weight))))
    if projected.shape != weight.shape or projected.dtype != weight.dtype:
        result.fail("it changes the shape or the dtype", (projected.shape, projected.dtype))
    if not np.all(np.isfinite(projected)):
        result.fail("it returns a weight that is not finite", projected.ravel()[:5])
    return projected


def _compare(
    projection: Any,
    weight: np.ndarray,
    norms: tuple[Callable[[np.ndarray], float], Callable[[np.ndarray], float] | None],
    quantity: str,
    result: Comparison,
) -> None:
    claimed, double = float(projection.bound_of(weight)), weight.astype("float64")
    result.compare(quantity, claimed, projection.norm_bound)
    own, spectral = norms
    result.compare("true norm", own(double), claimed * (1.0 + _ORACLE_ROUNDING))
    if spectral is not None:
        bound = projection.spectral_bound(weight.shape)
        result.compare("spectral norm", spectral(double), bound * (1.0 + _ORACLE_ROUNDING))
