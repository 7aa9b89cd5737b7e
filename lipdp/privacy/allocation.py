"""How the noise is shared out among the variables, at the same total cost.

With weights w, the noise on variable v has standard deviation
``s_v = z w_v sqrt(sum_u D_u^2 / w_u^2)``, so that ``sum_v D_v^2 / s_v^2 = 1 / z^2``: the whole
step is one Gaussian mechanism of multiplier z (scale each coordinate by its standard deviation;
the scaled gradient of one row has norm at most 1/z).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from lipdp.errors import InvalidValue, UnboundedGradient, UnknownName
from lipdp.privacy.phase import check_noise_multiplier, is_number

Weights = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _global_weights(bounds: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The same standard deviation everywhere."""
    return np.ones_like(bounds)


def _per_layer_weights(bounds: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Standard deviations in proportion to the bounds."""
    return bounds


def _optimal_weights(bounds: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Least total noise energy ``sum n_v s_v^2``.

    Cauchy-Schwarz: ``sum n s^2 sum D^2 / s^2 >= (sum D sqrt(n))^2``, with equality where
    ``s^2`` is in proportion to ``D / sqrt(n)``.
    """
    return np.sqrt(bounds / np.sqrt(sizes))


ALLOCATIONS: Mapping[str, Weights] = MappingProxyType(
    {"global": _global_weights, "per-layer": _per_layer_weights, "optimal": _optimal_weights}
)


def effective_multiplier(multipliers: Iterable[float]) -> float:
    """Multiplier of one Gaussian mechanism that costs what several in parallel cost.

    ``z = (sum z_v^-2)^(-1/2)``. An infinite multiplier costs nothing, a zero one everything.

    Args:
        multipliers: One noise multiplier a variable, each over its own sensitivity.

    Raises:
        InvalidValue: If one is negative or NaN.
    """
    values = list(multipliers)
    for value in values:
        if not is_number(value) or value < 0.0:
            raise InvalidValue("Noise multipliers must be at least 0", received=value)
    if any(value == 0.0 for value in values):
        return 0.0
    least = min(values, default=math.inf)
    if math.isinf(least):
        return math.inf
    return float(least / math.hypot(*(least / value for value in values)))


def allocate(
    bounds: Sequence[float], sizes: Sequence[int], noise_multiplier: float, strategy: str
) -> list[float]:
    """Standard deviations of the noise, one a variable, in units of the summed gradient.

    Guarantees: ``sum D_v^2 / s_v^2 <= 1 / z^2`` as computed in float64; a variable with bound 0
    gets no noise.

    Args:
        bounds: Bound D_v of the L2 norm of one row's gradient, one a variable.
        sizes: Number of entries n_v, one a variable.
        noise_multiplier: z of the whole step.
        strategy: A name in ``ALLOCATIONS``.

    Raises:
        UnboundedGradient: If a bound is not finite.
        InvalidValue: If a bound is negative, a size is not positive, or the lengths differ.
        UnknownName: If the strategy is unknown.
    """
    weigh = find_allocation(strategy)
    check_noise_multiplier(noise_multiplier)
    limits, entries = _checked(bounds, sizes)
    used = limits > 0.0
    deviations = np.zeros_like(limits)
    if noise_multiplier > 0.0 and used.any():
        deviations[used] = _deviations(limits[used], entries[used], noise_multiplier, weigh)
    return [float(value) for value in deviations]


def _deviations(
    bounds: np.ndarray, sizes: np.ndarray, noise_multiplier: float, weigh: Weights
) -> np.ndarray:
    scale = bounds.max()
    weights = weigh(bounds / scale, sizes)
    total = math.hypot(*(bounds / scale / weights))
    deviations = noise_multiplier * weights * total * scale
    while math.fsum((bounds / deviations) ** 2) > 1.0 / noise_multiplier**2:
        deviations = deviations * (1.0 + 2.0**-51)
    return deviations


def _checked(bounds: Sequence[float], sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    limits = np.asarray(bounds, dtype=np.float64)
    entries = np.asarray(sizes, dtype=np.float64)
    if limits.ndim != 1 or limits.shape != entries.shape:
        raise InvalidValue(
            "Bounds and sizes must have one entry a variable",
            received=(limits.shape, entries.shape),
        )
    if not np.isfinite(limits).all():
        raise UnboundedGradient(
            "A variable has no finite gradient bound",
            received=[float(value) for value in limits],
            fix="Constrain the layers between it and the loss, or freeze it",
        )
    if (limits < 0.0).any() or not (entries >= 1.0).all():
        raise InvalidValue(
            "Bounds must be at least 0 and sizes at least 1", received=(bounds, sizes)
        )
    return limits, entries


def find_allocation(name: str) -> Weights:
    """The weights of that name.

    Raises:
        UnknownName: If there are none.
    """
    if name not in ALLOCATIONS:
        raise UnknownName(
            "There is no noise allocation of this name",
            received=name,
            fix=f"Use one of: {', '.join(ALLOCATIONS)}",
        )
    return ALLOCATIONS[name]
