"""The Gaussian mechanism on arrays of the host, several at once."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy.allocation import allocate
from lipdp.privacy.noise_grid import grid_of, largest_sum, rounded_sensitivity
from lipdp.privacy.phase import check_noise_multiplier, is_number
from lipdp.privacy.rounded_gaussian import RoundedGaussian


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
    """``lipdp/privacy/rounded_gaussian.py`` has the proof."""
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
