"""Means, scales and whitenings of private rows, by the Gaussian mechanism.

Rows are clipped to the ball of a public radius R first, and the number of units N is public. A row
that is added or removed changes the sum of the rows by at most R in Euclidean norm, and

* the sum of squares of each feature by ``(sum x_i^4)^(1/2) <= sum x_i^2 <= R^2``;
* the sum of ``x x^T`` by ``||x x^T||_F = ||x||^2 <= R^2``. Released is its upper triangle, with
  off-diagonal entries times ``sqrt(2)``: these coordinates have exactly the Frobenius norm of the
  symmetric matrix. Without the factor the triangle would change by
  ``sqrt((||x||^4 + sum x_i^4) / 2)``, which reaches R^2 as well, so it would cost the same with
  more noise on the matrix.

Each is attained at rows ``R e_i``. Where a unit is a group of rows it contributes their mean, of
``x`` as of ``x x^T``: a mean of vectors is no longer than the longest, so the same bounds hold for
units with any number of rows, and N, the number of units, stays the public divisor. What follows
the noise (means, floors, eigenvectors) is post-processing: it uses noisy numbers and public ones,
and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipdp.privacy._checks import ball_radius
from lipdp.privacy._row_sums import OfBlock, UnitRows, sensitivity_of_sum, sum_rows, unit_rows
from lipdp.privacy._second_moments import (
    least_variance,
    power,
    spectral_level,
    symmetric,
    triangle,
)
from lipdp.privacy.release import Query, release


@dataclass(frozen=True)
class MeanAndScale:
    """Noisy mean and standard deviation of each feature.

    Attributes:
        mean: Shape (d,).
        scale: Standard deviations, at least the floor, shape (d,).
        typical_norm: Root mean square of ``||(x - mean) / scale||``, from the noisy numbers.
        noise_multiplier: Of the release as one Gaussian mechanism.
    """

    mean: np.ndarray
    scale: np.ndarray
    typical_norm: float
    noise_multiplier: float


@dataclass(frozen=True)
class MeanAndWhitening:
    """Noisy mean, and the inverse root of the noisy covariance.

    Attributes:
        mean: Shape (d,).
        matrix: Symmetric and positive definite, shape (d, d): ``(x - mean) @ matrix`` is white.
        typical_norm: Root mean square of ``||(x - mean) @ matrix||``, from the noisy numbers.
        noise_multiplier: Of the release as one Gaussian mechanism.
    """

    mean: np.ndarray
    matrix: np.ndarray
    typical_norm: float
    noise_multiplier: float


def private_mean_and_scale(
    x: Any,
    *,
    radius: float,
    noise_multiplier: float,
    groups: Any = None,
    secure_noise: bool = False,
    seed: int | None = None,
) -> MeanAndScale:
    """Mean and standard deviation of each feature of the clipped rows.

    The noisy variance ``sum x^2 / N - mean^2`` is raised to the standard deviation of its own
    noise, ``hypot(s_2, 2 |mean| s_1) / N``, and to a public part of ``R^2 / d``.

    Guarantees:
        * One Gaussian mechanism of the given multiplier, for all rows, NaN and huge ones included
          (``test_no_neighbour_changes_a_query_by_more_than_its_sensitivity``), and for units of any
          number of rows (``test_a_user_with_any_number_of_rows_counts_as_one_row``).
        * Scales are positive and finite (``test_scales_and_whitenings_stay_usable``).

    Args:
        x: Rows, shape (n, d); one with a non-finite entry counts as zero.
        radius: Public radius R of the ball that rows are clipped to.
        noise_multiplier: Standard deviation over sensitivity of the whole release.
        groups: The protected unit of each row, shape (n,); each unit counts as one row, the mean of
            its own. By default a row is a unit.
        secure_noise: As in ``release``.
        seed: As in ``release``.

    Raises:
        InvalidValue: If a number is outside its domain.
        InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
    """
    units = unit_rows(x, groups)
    queries = scale_queries(units, ball_radius(radius))
    first, second = release(queries, noise_multiplier, secure_noise=secure_noise, seed=seed)
    count, mean = units.num_units, first.values / units.num_units
    variance = second.values / count - mean**2
    level = np.hypot(second.stddev, 2.0 * np.abs(mean) * first.stddev) / count
    raised = np.maximum(variance, np.maximum(level, least_variance(radius, len(mean))))
    norm = _typical_norm(variance, raised)
    return MeanAndScale(mean, np.sqrt(raised), norm, float(noise_multiplier))


def private_mean_and_whitening(
    x: Any,
    *,
    radius: float,
    noise_multiplier: float,
    groups: Any = None,
    secure_noise: bool = False,
    seed: int | None = None,
) -> MeanAndWhitening:
    """Mean and whitening matrix of the clipped rows.

    The noise on the second moment is a symmetric Gaussian matrix of spectral norm about
    ``s_2 sqrt(2 d) / N``. Eigenvalues of the noisy covariance below that say nothing: they are
    raised to it, and to a public part of ``R^2 / d``, before the root is inverted.

    Guarantees:
        * One Gaussian mechanism of the given multiplier, for all rows, NaN and huge ones included
          (``test_no_neighbour_changes_a_query_by_more_than_its_sensitivity``), and for units of any
          number of rows (``test_a_user_with_any_number_of_rows_counts_as_one_row``).
        * The matrix is symmetric, finite and positive definite
          (``test_scales_and_whitenings_stay_usable``).

    Args:
        x: As in ``private_mean_and_scale``.
        radius: As there.
        noise_multiplier: As there.
        groups: As there.
        secure_noise: As in ``release``.
        seed: As in ``release``.

    Raises:
        InvalidValue: If a number is outside its domain.
        InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
    """
    units = unit_rows(x, groups)
    queries = whitening_queries(units, ball_radius(radius))
    first, second = release(queries, noise_multiplier, secure_noise=secure_noise, seed=seed)
    count, mean = units.num_units, first.values / units.num_units
    covariance = symmetric(second.values, len(mean)) / count - np.outer(mean, mean)
    level = spectral_level(second.stddev, len(mean)) / count
    values, vectors = np.linalg.eigh(covariance)
    raised = np.maximum(values, max(level, least_variance(radius, len(mean))))
    norm = _typical_norm(values, raised)
    matrix = power(raised, vectors, -0.5)
    return MeanAndWhitening(mean, matrix, norm, float(noise_multiplier))


def scale_queries(units: UnitRows, radius: float) -> list[Query]:
    """Sum and sum of squares of each feature."""
    return [
        _query(units, radius, 1, lambda rows, weighted: weighted.sum(axis=0)),
        _query(units, radius, 2, lambda rows, weighted: (weighted * rows).sum(axis=0)),
    ]


def whitening_queries(units: UnitRows, radius: float) -> list[Query]:
    """Sum and second moment."""
    return [
        _query(units, radius, 1, lambda rows, weighted: weighted.sum(axis=0)),
        _query(units, radius, 2, lambda rows, weighted: triangle(weighted.T @ rows)),
    ]


def _query(units: UnitRows, radius: float, power: int, of_block: OfBlock) -> Query:
    """A sum to which a row of norm R adds at most ``R^power``."""
    sensitivity = sensitivity_of_sum(units.num_units, units.size, radius**power)
    return Query(sum_rows(units, radius, of_block), sensitivity)


def _typical_norm(variances: np.ndarray, raised: np.ndarray) -> float:
    """The root of the variance that is left in all directions together, at least 1."""
    return math.sqrt(max(1.0, float(np.sum(np.maximum(variances, 0.0) / raised))))
