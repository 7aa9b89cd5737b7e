"""Histograms of private codes, by the Gaussian mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipdp.errors import InvalidData
from lipdp.privacy._checks import whole
from lipdp.privacy.release import Query, release


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
