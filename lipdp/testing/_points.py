"""Inputs, cotangents and weights at which bounds tend to fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

#: Sums of squares of smaller numbers do not overflow.
_SQUARABLE = 1e140


def norm(array: np.ndarray) -> float:
    """Euclidean norm of a whole tensor, in float64.

    The squares are added exactly, so that a layer that moves entries about does not change it.
    """
    values = np.asarray(array, dtype="float64").ravel()
    if not np.abs(values).max(initial=0.0) < _SQUARABLE:
        return float(np.linalg.norm(values))
    return math.sqrt(math.fsum((values * values).tolist()))


def scaled_to(array: np.ndarray, radius: float) -> np.ndarray:
    """The array scaled to a norm; a zero array stays."""
    length = norm(array)
    return array * (radius / length) if length > 0 else array


def adversarial_points(
    shape: Sequence[int], radius: float, rng: np.random.Generator
) -> list[np.ndarray]:
    """Points of the ball: zero, ties, one-hot, duplicated and sparse vectors, spheres of all sizes.

    Args:
        shape: Of one sample.
        radius: Of the ball.
        rng: Source of the random ones.
    """
    size = int(np.prod(shape))
    directions = [np.ones(size), -np.ones(size), np.eye(size)[0], -np.eye(size)[size // 2]]
    directions += [np.repeat(rng.normal(size=(size + 1) // 2), 2)[:size]]
    directions += [rng.normal(size=size) * rng.integers(0, 2, size=size), np.arange(size) % 2.0]
    directions += [rng.normal(size=size) for _ in range(2)]
    points = [np.zeros(size)] + [scaled_to(d, radius) for d in directions]
    points += [scaled_to(rng.normal(size=size), radius * t) for t in (0.7, 0.3, 0.1, 1e-2, 1e-6)]
    points += [scaled_to(np.ones(size), radius * 1e-3)]
    return [p.reshape(shape) for p in points]


def id_points(shape: Sequence[int], count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Ids: random, all equal, all different, and those of no row.

    Args:
        shape: Of one sample.
        count: Number of valid ids.
        rng: Source of the random ones.
    """
    size = int(np.prod(shape))
    equal = [np.full(size, i) for i in (0, count - 1, -1, count, 0.5, 1e6)]
    mixed = [rng.integers(-2, count + 2, size=size) for _ in range(3)]
    proper = [rng.integers(0, count, size=size) for _ in range(3)]
    points = [*equal, np.arange(size) % count, *mixed, *proper]
    return [np.asarray(p, "float64").reshape(shape) for p in points]


def hostile_points(shape: Sequence[int]) -> list[np.ndarray]:
    """Rows that no data set should hold: NaN, infinities, and near the largest float."""
    size = int(np.prod(shape))
    mixed = np.zeros(size)
    mixed[0], mixed[-1] = np.inf, np.nan
    rows = [np.full(size, v) for v in (np.nan, np.inf, -np.inf, 3e38, -1e30, 1e19, 1e-38)]
    return [r.reshape(shape) for r in [*rows, mixed]]


def cotangents(size: int, rng: np.random.Generator, *, one_hot: bool = True) -> list[np.ndarray]:
    """Unit vectors of an output space: constant, alternating, one-hot (two) and random."""
    vectors = [np.ones(size), (-1.0) ** np.arange(size)]
    vectors += [np.eye(size)[0], np.eye(size)[-1]] if one_hot else []
    vectors += [rng.normal(size=size) for _ in range(2)]
    return [scaled_to(v, 1.0) for v in vectors]


def adversarial_weights(
    shape: Sequence[int], rng: np.random.Generator, size: float = 1e3
) -> Iterator[tuple[str, np.ndarray]]:
    """Weights before projection, far outside every reasonable ball, by name.

    Args:
        shape: Of the weight.
        rng: Source of the random ones.
        size: Factor that pushes them out.
    """
    columns = shape[-1] if len(shape) > 0 else 1
    rows = int(np.prod(shape)) // columns
    spike = np.zeros(rows * columns)
    spike[rng.integers(rows * columns)] = size
    decay = np.geomspace(1.0, 1e-3, min(rows, columns))
    left = np.linalg.qr(rng.normal(size=(rows, len(decay))))[0]
    right = np.linalg.qr(rng.normal(size=(columns, len(decay))))[0]
    yield "random", size * rng.normal(size=shape)
    yield "constant", np.full(shape, size)
    yield "rank one", size * np.outer(rng.normal(size=rows), rng.normal(size=columns))
    yield "spike", spike
    yield "graded", size * (left * decay) @ right.T
    yield "orthogonal", left @ right.T
    yield "zero", np.zeros(shape)
