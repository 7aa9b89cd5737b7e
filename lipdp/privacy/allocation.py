"""How the noise is shared out among the variables and the epochs, at the same total cost."""

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


Schedule = tuple[tuple[int, float], ...]


def check_schedule(schedule: Schedule) -> Schedule:
    """Refuses a schedule whose epochs do not rise from 0 on or whose factors are not positive.

    Args:
        schedule: Pairs ``(epoch, factor)``; before the first epoch the factor is 1.

    Raises:
        InvalidValue: If a pair is out of order or outside its domain.
    """
    last = -1
    for epoch, factor in schedule:
        whole = type(epoch) is int and epoch > last
        if not whole or not is_number(factor) or not 0.0 < factor < math.inf:
            raise InvalidValue(
                "A noise schedule needs rising epochs from 0 on and positive factors",
                received=schedule,
                fix="Use pairs such as ((0, 1.0), (10, 0.8))",
            )
        last = epoch
    return tuple((epoch, float(factor)) for epoch, factor in schedule)


def factor_at(schedule: Sequence[tuple[int, float]], epoch: int) -> float:
    """The factor of the noise multiplier in an epoch."""
    found = 1.0
    for start, factor in schedule:
        if start <= epoch:
            found = factor
    return found
