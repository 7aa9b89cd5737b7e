"""The least noise for a budget, and the most steps of a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lipdp.privacy.accountants import ADJACENCIES, account, check_adjacency, epsilon_of
from lipdp.privacy.gaussian import gaussian_epsilon
from lipdp.privacy.phase import (
    Phase,
    check_delta,
    check_epsilon,
    check_sampling_rate,
    check_steps,
)

#: The search ends when this part of the target is used.
_USED = 0.9993
_AIM = 0.9997


def calibrate_noise_multiplier(
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    *,
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> float:
    """Least noise multiplier whose steps cost at most epsilon.

    Guarantees: the epsilon computed anew from the returned multiplier, with the same accountant,
    is at most the target, and at least 0.99 of it.

    Args:
        epsilon: Target, positive and finite.
        delta: Target delta, in (0, 1).
        sampling_rate: Probability that one row enters a batch, in (0, 1].
        steps: Number of steps; 0 needs no noise.
        accountant: ``"pld"`` or ``"rdp"``.
        adjacency: ``"add-remove"``, ``"zero-out"`` or ``"replace-one"``.

    Raises:
        InvalidValue: If a number is outside its domain.
        UnknownName: If accountant or adjacency is unknown.
    """
    _check_target(epsilon, delta, sampling_rate, steps)
    factor = ADJACENCIES[check_adjacency(adjacency)]
    if steps == 0:
        return 0.0

    def cost(noise_multiplier: float, coarse: bool) -> float:
        phase = Phase(sampling_rate, noise_multiplier, steps)
        return account(
            [phase], delta, accountant=accountant, adjacency=adjacency, coarse=coarse
        ).epsilon

    enough = math.sqrt(steps) / _full_batch_mu(epsilon, delta) / factor
    return _least_noise(cost, enough, epsilon)


def _check_target(epsilon: float, delta: float, sampling_rate: float, steps: int) -> None:
    check_epsilon(epsilon)
    check_delta(delta)
    check_sampling_rate(sampling_rate)
    check_steps(steps)


def _full_batch_mu(epsilon: float, delta: float) -> float:
    """Largest mu, up to 1e-6 relative, of a Gaussian mechanism that costs at most epsilon."""
    low, high = 0.0, 1.0
    while gaussian_epsilon(high, delta) <= epsilon:
        low, high = high, 2.0 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if gaussian_epsilon(middle, delta) <= epsilon else (low, middle)
    return low


@dataclass(frozen=True)
class _Point:
    noise: float
    epsilon: float


def _least_noise(cost: Callable[[float, bool], float], enough: float, target: float) -> float:
    """Coarse search first; the fine accountant then starts next to the answer."""
    high = _Point(enough, cost(enough, True))
    low, high = _bracket(lambda z: cost(z, True), high, target, ratio=0.5)
    low, high = _narrow(lambda z: cost(z, True), low, high, target)
    start = _Point(high.noise, cost(high.noise, False))
    low, high = _bracket(lambda z: cost(z, False), start, target, ratio=0.97)
    _, high = _narrow(lambda z: cost(z, False), low, high, target)
    return high.noise


def _bracket(
    cost: Callable[[float], float], high: _Point, target: float, ratio: float
) -> tuple[_Point, _Point]:
    """Widens to both sides until one end costs too much and the other does not."""
    while high.epsilon > target:
        noise = high.noise / ratio
        high = _Point(noise, cost(noise))
    low = high
    while low.epsilon <= target and high.epsilon < _USED * target:
        noise = low.noise * ratio
        low, high = _Point(noise, cost(noise)), low
        ratio *= ratio
    return (low, high) if low.epsilon > target else (low, low)


def _narrow(
    cost: Callable[[float], float], low: _Point, high: _Point, target: float
) -> tuple[_Point, _Point]:
    """Interpolation of the logarithms, in turn with halving, until the target is nearly used."""
    for attempt in range(60):
        if high.epsilon >= _USED * target or high.noise - low.noise <= 1e-9 * high.noise:
            break
        noise = _guess(low, high, target * _AIM, halve=attempt % 3 == 2)
        point = _Point(noise, cost(noise))
        low, high = (point, high) if point.epsilon > target else (low, point)
    return low, high


def _guess(low: _Point, high: _Point, aim: float, *, halve: bool) -> float:
    share = 0.5
    if not halve and high.epsilon > 0.0 and math.isfinite(low.epsilon):
        share = math.log(low.epsilon / aim) / math.log(low.epsilon / high.epsilon)
    share = min(max(share, 1e-3), 1.0 - 1e-3)
    return low.noise * (high.noise / low.noise) ** share


def max_steps(
    spent: Sequence[Phase],
    sampling_rate: float,
    noise_multiplier: float,
    epsilon: float,
    delta: float,
    limit: int,
    *,
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> int:
    """Most further steps, up to a limit, that keep the whole composition within epsilon.

    Args:
        spent: What was run before.
        sampling_rate: Of the further steps.
        noise_multiplier: Of the further steps.
        epsilon: The budget, for what was spent and the further steps together.
        delta: Target delta.
        limit: Steps that are wanted.
        accountant: ``"pld"`` or ``"rdp"``.
        adjacency: ``"add-remove"``, ``"zero-out"`` or ``"replace-one"``.

    Returns:
        0 if not one step fits.

    Raises:
        InvalidValue: If a number is outside its domain.
        UnknownName: If accountant or adjacency is unknown.
    """
    _check_target(epsilon, delta, sampling_rate, limit)

    def cost(steps: int) -> float:
        phases = [*spent, Phase(sampling_rate, noise_multiplier, steps)]
        return epsilon_of(phases, delta, accountant=accountant, adjacency=adjacency)

    if limit == 0 or cost(limit) <= epsilon:
        return int(limit)
    return 0 if cost(0) > epsilon else _last_within(cost, epsilon, int(limit))


def _last_within(cost: Callable[[int], float], budget: float, limit: int) -> int:
    """Bisection, with interpolation first: epsilon is nearly linear in steps near the end."""
    low, high = 0, limit
    at_low, at_high = cost(low), cost(high)
    attempt = 0
    while high - low > 1:
        share = 0.5
        if attempt % 3 < 2 and math.isfinite(at_high):
            share = (budget - at_low) / (at_high - at_low)
        side = (-1, 1)[attempt % 2] * math.isqrt(high - low) // 8
        middle = min(max(low + round(share * (high - low)) + side, low + 1), high - 1)
        found = cost(middle)
        if found <= budget:
            low, at_low = middle, found
        else:
            high, at_high = middle, found
        attempt += 1
    return low
