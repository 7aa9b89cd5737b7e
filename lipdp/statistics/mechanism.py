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
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipdp.errors import InvalidData, InvalidValue
from lipdp.numerics import gamma, unit_roundoff
from lipdp.privacy.allocation import allocate
from lipdp.privacy.phase import check_noise_multiplier, is_number
from lipdp.privacy.secure_noise import RoundedGaussian, grid_of, largest_sum, rounded_sensitivity
from lipdp.privacy.units import number_units


def ball_radius(value: Any) -> float:
    """A positive radius, far from overflow of its square.

    Raises:
        InvalidValue: If it is none.
    """
    if not is_number(value) or not 1e-30 <= value <= 1e30:
        raise InvalidValue(
            "The radius must be a positive finite number",
            received=value,
            fix="Give a public bound of the rows' norms, from 1e-30 to 1e30",
        )
    return float(value)


def whole(name: str, value: Any) -> int:
    """A whole number of at least 1.

    Raises:
        InvalidValue: If it is none.
    """
    if not is_number(value) or not 1 <= value < math.inf or value != int(value):
        raise InvalidValue(f"{name} must be a whole number of at least 1", received=value)
    return int(value)


@dataclass(frozen=True)
class Query:
    """A function of the rows that is to be released.

    Attributes:
        values: Its values, finite float64 of any shape.
        sensitivity: Bound of the Euclidean norm of their change between neighbours, as computed.
    """

    values: np.ndarray
    sensitivity: float


@dataclass(frozen=True)
class Released:
    """What came out.

    Attributes:
        values: The noisy values, in the shape of the query's.
        stddev: Standard deviation of the noise on each of them.
    """

    values: np.ndarray
    stddev: float


def release(
    queries: Sequence[Query],
    noise_multiplier: float,
    *,
    secure_noise: bool = False,
    seed: int | None = None,
) -> list[Released]:
    """Releases several queries, each with an equal share of the cost.

    Each of k queries gets multiplier ``z_i = z sqrt(k)``, noise of standard deviation ``z_i D_i``.
    Divide each by its standard deviation: neighbours then differ by at most
    ``sqrt(sum 1 / z_i^2) = 1/z``, so all of them together are one mechanism of multiplier z.

    Guarantees:
        * ``sum (sensitivity / stddev)^2 <= 1 / noise_multiplier^2``, as computed
          (``test_all_queries_together_cost_one_mechanism``).
        * Noise is drawn anew for each entry of each query (``test_the_noise_has_its_size``), from
          the operating system's entropy unless a seed is given (``test_a_seed_repeats``).
        * With ``secure_noise`` the released numbers are multiples of a public grid, drawn exactly
          (``test_secure_noise_lies_on_the_grid``); without it, low bits of a floating-point sum may
          tell neighbours apart, which no epsilon covers.

    Args:
        queries: What is released.
        noise_multiplier: z of all together; 0 adds no noise, which protects nobody.
        secure_noise: Whether noise comes from a cryptographic generator, on a grid.
        seed: Makes the noise reproducible, and the release not private.

    Raises:
        InvalidValue: If a number is outside its domain.
        InvalidData: If a value is not finite.
    """
    check_noise_multiplier(noise_multiplier)
    for query in queries:
        _check(query)
    ones = [1] * len(queries)
    multipliers = allocate(ones, ones, noise_multiplier, "per-layer")
    rng = np.random.default_rng(None if seed is None else [seed, 3])
    if not secure_noise or noise_multiplier == 0.0:
        return [_noisy(q, z, rng) for q, z in zip(queries, multipliers, strict=True)]
    exact = RoundedGaussian(os.urandom if seed is None else rng.bytes)
    return [_on_grid(q, z, exact) for q, z in zip(queries, multipliers, strict=True)]


def _check(query: Query) -> None:
    if not is_number(query.sensitivity) or not 0.0 < query.sensitivity < math.inf:
        raise InvalidValue(
            "The sensitivity must be positive and finite", received=query.sensitivity
        )
    if not np.isfinite(query.values).all():
        raise InvalidData("A query has a value that is not finite")


def _noisy(query: Query, multiplier: float, rng: np.random.Generator) -> Released:
    stddev = _up(multiplier * query.sensitivity)
    return Released(query.values + stddev * rng.standard_normal(query.values.shape), stddev)


def _on_grid(query: Query, multiplier: float, exact: RoundedGaussian) -> Released:
    """``lipdp/privacy/secure_noise.py`` has the proof."""
    size = query.values.size
    grid = grid_of(multiplier * query.sensitivity, query.sensitivity, size)
    stddev = _up(multiplier * rounded_sensitivity(query.sensitivity, grid, size))
    limit = largest_sum(stddev, grid, "float64")
    whole = np.round(np.clip(query.values, -limit, limit) / grid)
    draws = exact.draw(stddev, grid, size).reshape(query.values.shape)
    return Released((whole + draws) * grid, stddev)


def _up(product: float) -> float:
    """The next float: above the exact product, which was rounded once. 0 stays."""
    return math.nextafter(product, math.inf) if product else 0.0


_UNIT = unit_roundoff("float64")
#: Rows at a time, for little memory and little rounding: see ``sensitivity_of_sum``.
_BLOCK = 4096

OfBlock = Callable[[np.ndarray, np.ndarray], np.ndarray]


def clip_rows(x: np.ndarray, radius: float) -> np.ndarray:
    """``x min(1, radius / ||x||)`` for each row, in float64; a non-finite row becomes 0.

    Rows are scaled by ``max(radius, max |x|)``, so that no square overflows. The norm of a computed
    row is at most ``radius (1 + gamma(d + 8))``.

    Args:
        x: Rows, shape (n, d).
        radius: Radius of the ball.
    """
    rows = np.asarray(x, dtype=np.float64)
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    scale = np.maximum(np.abs(rows).max(axis=1, keepdims=True, initial=0.0), radius)
    scaled = rows / scale
    norm = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    with np.errstate(over="ignore"):
        inside = norm * scale <= radius
    return np.where(inside, rows, scaled * (radius / np.where(inside, 1.0, norm)))


@dataclass(frozen=True)
class UnitRows:
    """Rows of which each protected unit contributes a weighted mean.

    Attributes:
        rows: Shape (n, d).
        weights: Weight of each row, shape (n,); those of one unit add up to 1.
        num_units: Number of units.
    """

    rows: np.ndarray
    weights: np.ndarray
    num_units: int

    @property
    def size(self) -> int:
        """Number of features d."""
        return int(self.rows.shape[1])


def unit_rows(x: Any, groups: Any = None) -> UnitRows:
    """Each row, or all rows of each group, as a unit.

    Args:
        x: Rows, shape (n, d); also an object that gives rows when they are asked for.
        groups: The unit of each row, shape (n,), as in ``number_units``; None if each row is a
            unit.

    Raises:
        InvalidData: If x is no matrix of numbers, or groups are not one id a row of one kind.
    """
    # Rows that are read when asked for are summed block by block, as an array is.
    by_rows = isinstance(getattr(x, "dtype", None), np.dtype) and not hasattr(x, "__array__")
    rows = x if by_rows or isinstance(x, np.ndarray) else np.asarray(x)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or 0 in rows.shape:
        raise InvalidData(
            "Statistics need a matrix of numbers with at least one row and one feature",
            received=f"shape {rows.shape}, dtype {rows.dtype}",
            fix="Pass an array of shape (N, d); flatten images first",
        )
    if groups is None:
        return UnitRows(rows, np.ones(len(rows)), len(rows))
    ids = number_units(groups, len(rows))
    counts = np.bincount(ids)
    return UnitRows(rows, 1.0 / counts[ids], len(counts))


def sum_rows(units: UnitRows, radius: float, of_block: OfBlock) -> np.ndarray:
    """Sum over blocks of a function of clipped rows and of the same rows times their weights."""
    total: np.ndarray = np.zeros(())
    low: np.ndarray = np.zeros(())
    for start in range(0, len(units.rows), _BLOCK):
        rows = clip_rows(units.rows[start : start + _BLOCK], radius)
        part = of_block(rows, rows * units.weights[start : start + _BLOCK, None])
        # The exact error of each sum of two numbers is kept (Knuth).
        new = total + part
        shift = new - total
        low = low + ((total - (new - shift)) + (part - shift))
        total = new
    return total + low


def sensitivity_of_sum(num_units: int, size: int, one_row: float, terms: int = 1) -> float:
    """Bound of the Euclidean change of a computed sum between neighbours.

    A unit contributes a weighted mean of rows that add at most ``one_row`` each, so at most
    ``one_row``; ``(1 + g) one_row`` as computed, g of the roundings of clipping, weights and
    products. Within a block an entry sums ``4096 terms`` numbers; the sum of the blocks keeps its
    rounding errors, and is then exact up to two roundings more for up to 2^32 rows (Ogita, Rump,
    Oishi 2005, Proposition 4.5). So a sum over N units is exact up to ``gamma(4096 terms + 4)``
    times the sum of absolute values, of norm at most ``N (1 + g) one_row`` (Higham, section 4.2);
    that is added for each of the two neighbours.

    Args:
        num_units: Number N of units, public.
        size: Number d of features.
        one_row: Bound of the norm of one row's exact contribution, and of its absolute values if
            each entry is a sum itself.
        terms: How many products of a row an entry sums.
    """
    unit = one_row * (1.0 + gamma(2 * size + 32, _UNIT))
    rounding = 2.0 * (num_units + 1) * gamma(_BLOCK * terms + 4, _UNIT)
    return unit * (1.0 + rounding) * (1.0 + 8.0 * _UNIT)


#: Variances below this part of R^2 / d, the most that d features can have on average, are taken to
#: be this: a feature that hardly moves is not blown up.
_LEAST_VARIANCE = 1e-4


def triangle(matrix: np.ndarray) -> np.ndarray:
    """Upper triangle of a symmetric matrix, off-diagonal entries times ``sqrt(2)``.

    Its Euclidean norm is the Frobenius norm of the matrix.
    """
    return matrix[np.triu_indices(len(matrix))] * _weights(len(matrix))


def symmetric(entries: np.ndarray, size: int) -> np.ndarray:
    """Inverse of ``triangle``."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = entries / _weights(size)
    return matrix + np.triu(matrix, 1).T


def spectral_level(stddev: float, size: int) -> float:
    """About the spectral norm of ``symmetric`` of Gaussian noise: ``stddev sqrt(2 d)``."""
    return stddev * math.sqrt(2.0 * size)


def least_variance(radius: float, size: int) -> float:
    """The floor of each of d variances of rows in a ball, a public number."""
    return _LEAST_VARIANCE * radius * radius / size


def power(values: np.ndarray, vectors: np.ndarray, exponent: float) -> np.ndarray:
    """The symmetric matrix with these positive eigenvalues, to a power."""
    matrix = (vectors * values**exponent) @ vectors.T
    return (matrix + matrix.T) / 2.0


def _weights(size: int) -> np.ndarray:
    i, j = np.triu_indices(size)
    return np.where(i == j, 1.0, math.sqrt(2.0))


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


@dataclass(frozen=True)
class PrivateCounts:
    """Noisy histograms.

    Attributes:
        counts: One array a column, shape (categories,), at least 0.
        noise_multiplier: Of all of them as one Gaussian mechanism.
    """

    counts: tuple[np.ndarray, ...]
    noise_multiplier: float


def private_counts(
    codes: Any,
    num_categories: int | Sequence[int],
    *,
    noise_multiplier: float,
    max_rows_per_unit: int = 1,
    secure_noise: bool = False,
    seed: int | None = None,
) -> PrivateCounts:
    """How often each category occurs, for one column of codes or several.

    For class weights or vocabularies that may be public. A row counts once in each of k columns, so
    the histograms together change by at most ``sqrt(k)``, and by m times that for a unit of m rows.
    Negative counts become 0, which is post-processing.

    Guarantees:
        * One Gaussian mechanism of the given multiplier over all columns, for any codes
          (``test_no_neighbour_changes_a_count_by_more_than_its_sensitivity``).

    Args:
        codes: Whole numbers, shape (N,) or (N, k); those outside 0 .. categories - 1 count nowhere.
        num_categories: Public number of categories, of each column.
        noise_multiplier: Standard deviation over sensitivity of the whole release.
        max_rows_per_unit: Most rows m of one protected unit; the caller sees to it.
        secure_noise: As in ``release``.
        seed: As in ``release``.

    Raises:
        InvalidValue: If a number is outside its domain.
        InvalidData: If the codes are no whole numbers, or their columns do not fit the categories.
    """
    columns, sizes = _columns(codes, num_categories)
    most = whole("max_rows_per_unit", max_rows_per_unit)
    histograms = [_histogram(c, n) for c, n in zip(columns, sizes, strict=True)]
    # Counts are exact, the root is rounded up.
    sensitivity = most * math.nextafter(math.sqrt(len(sizes)), math.inf)
    query = Query(np.concatenate(histograms), sensitivity)
    (noisy,) = release([query], noise_multiplier, secure_noise=secure_noise, seed=seed)
    counts = np.split(np.maximum(noisy.values, 0.0), np.cumsum(sizes)[:-1])
    return PrivateCounts(tuple(counts), float(noise_multiplier))


def _columns(codes: Any, num_categories: Any) -> tuple[list[np.ndarray], list[int]]:
    array = np.asarray(codes)
    if array.dtype.kind not in "iub" or array.ndim not in (1, 2):
        raise InvalidData(
            "Codes must be whole numbers, one column or several",
            received=f"shape {array.shape}, dtype {array.dtype}",
        )
    given = num_categories if isinstance(num_categories, Sequence) else [num_categories]
    sizes = [whole("num_categories", size) for size in given]
    columns = list(array.T) if array.ndim == 2 else [array]
    if len(sizes) != len(columns) or not sizes:
        raise InvalidData(
            "Give one number of categories a column", received=(len(columns), len(sizes))
        )
    return columns, sizes


def _histogram(codes: np.ndarray, size: int) -> np.ndarray:
    known = codes[(codes >= 0) & (codes < size)]
    return np.bincount(known.astype(np.int64), minlength=size).astype(np.float64)
