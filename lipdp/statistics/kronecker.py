"""Whitening of maps over their positions and over their channels, by the Gaussian mechanism.

A row is a matrix X of P positions and C channels, clipped to the ball ``||X||_F <= R`` of a public
radius. Its covariance of ``(P C)^2`` entries would need more noise than it is worth; released are,
beside the sum of the rows, the two factors of a covariance of Kronecker form:

* the sum of ``X^T X``, over channels: one row changes it by
  ``||X^T X||_F = (sum s_i^4)^(1/2) <= sum s_i^2 = ||X||_F^2 <= R^2``, s_i the singular values of X;
* the sum of ``X X^T``, over positions: it has the same singular values.

Both are attained at an X of rank one. Matrices are released as their triangle, and units of any
number of rows contribute a mean, as in ``lipdp/statistics/mechanism.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.statistics.mechanism import (
    OfBlock,
    Query,
    Released,
    UnitRows,
    ball_radius,
    least_variance,
    power,
    release,
    sensitivity_of_sum,
    spectral_level,
    sum_rows,
    symmetric,
    triangle,
    unit_rows,
    whole,
)


@dataclass(frozen=True)
class KroneckerWhitening:
    """Noisy mean, and the inverse roots of two noisy second moments.

    ``spatial @ (X - mean) @ channel`` is white if the covariance of X has Kronecker form.

    Attributes:
        mean: Shape (P, C).
        spatial: Symmetric and positive definite, shape (P, P), without a unit.
        channel: Symmetric and positive definite, shape (C, C), in the inverse unit of X.
        typical_norm: Root mean square of the norm of a mapped row if the covariance has Kronecker
            form, from the noisy numbers.
        noise_multiplier: Of the release as one Gaussian mechanism.
    """

    mean: np.ndarray
    spatial: np.ndarray
    channel: np.ndarray
    typical_norm: float
    noise_multiplier: float


def private_kronecker_whitening(
    x: Any,
    *,
    positions: int,
    radius: float,
    noise_multiplier: float,
    groups: Any = None,
    secure_noise: bool = False,
    seed: int | None = None,
) -> KroneckerWhitening:
    """Mean and whitening matrices of the clipped rows, each a map of positions and channels.

    To each eigenvalue of a noisy second moment the noise's spectral norm is added, about
    ``s sqrt(2 d) / N`` (or a public part of ``R^2 / d`` if that is more), negative ones counting as
    0, before the root is inverted: directions that the noise hides are not blown up.

    Guarantees:
        * One Gaussian mechanism of the given multiplier, for all rows, NaN and huge ones included
          (``test_no_neighbour_changes_a_query_by_more_than_its_sensitivity``), and for units of any
          number of rows (``test_a_user_with_any_number_of_rows_counts_as_one_row``).
        * Matrices are symmetric, finite and positive definite
          (``test_whitenings_stay_usable``).

    Args:
        x: Rows, shape (n, P C), the channels of the first position first; one with a non-finite
            entry counts as zero.
        positions: Number P of positions.
        radius: As in ``private_mean_and_scale``.
        noise_multiplier: As there.
        groups: As there.
        secure_noise: As in ``release``.
        seed: As in ``release``.

    Raises:
        InvalidValue: If a number is outside its domain, or positions do not divide the features.
        InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
    """
    units = unit_rows(x, groups)
    queries = kronecker_queries(units, ball_radius(radius), positions)
    noisy = release(queries, noise_multiplier, secure_noise=secure_noise, seed=seed)
    count, mean = units.num_units, noisy[0].values.reshape(positions, -1) / units.num_units
    channel = _spectrum(noisy[1], mean.T @ mean, count, radius)
    spatial = _spectrum(noisy[2], mean @ mean.T, count, radius)
    # Both matrices have the trace of the whole covariance, which one of them is divided by.
    trace = math.sqrt(float(channel.raised.sum() * spatial.raised.sum()))
    return KroneckerWhitening(
        mean,
        power(spatial.raised / trace, spatial.vectors, -0.5),
        power(channel.raised, channel.vectors, -0.5),
        math.sqrt(max(1.0, channel.left * spatial.left)),
        float(noise_multiplier),
    )


def kronecker_queries(units: UnitRows, radius: float, positions: int) -> list[Query]:
    """Sum, second moment of channels, second moment of positions.

    Raises:
        InvalidValue: If positions do not divide the features.
    """
    count = whole("positions", positions)
    if units.size % count:
        raise InvalidValue(
            f"positions must divide the {units.size} features of a row", received=positions
        )
    shape = (count, units.size // count)

    def query(power: int, terms: int, of_maps: OfBlock) -> Query:
        bound = sensitivity_of_sum(units.num_units, units.size, radius**power, terms)
        values = sum_rows(
            units, radius, lambda rows, weighted: of_maps(*_maps((rows, weighted), shape))
        )
        return Query(values, bound)

    return [
        query(1, 1, lambda maps, weighted: weighted.sum(axis=0)),
        query(2, shape[0], lambda maps, weighted: triangle(_inner(weighted, maps, axis=2))),
        query(2, shape[1], lambda maps, weighted: triangle(_inner(weighted, maps, axis=1))),
    ]


def _maps(several: Iterable[np.ndarray], shape: tuple[int, int]) -> list[np.ndarray]:
    return [rows.reshape(-1, *shape) for rows in several]


def _inner(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    """Inner products along all other axes."""
    first, second = (np.moveaxis(m, axis, 0).reshape(m.shape[axis], -1) for m in (a, b))
    return first @ second.T


@dataclass(frozen=True)
class _Spectrum:
    """Eigenvectors of a noisy covariance, its raised eigenvalues, and the variance that is left."""

    vectors: np.ndarray
    raised: np.ndarray
    left: float


def _spectrum(second: Released, of_mean: np.ndarray, count: int, radius: float) -> _Spectrum:
    size = len(of_mean)
    values, vectors = np.linalg.eigh(symmetric(second.values, size) / count - of_mean)
    values = np.maximum(values, 0.0)
    level = spectral_level(second.stddev, size) / count
    raised = values + max(level, least_variance(radius, size))
    return _Spectrum(vectors, raised, float(np.sum(values / raised)))
