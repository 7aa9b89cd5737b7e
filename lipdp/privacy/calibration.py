"""The least noise for a budget, and the most steps of a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lipdp.errors import InvalidValue
from lipdp.privacy.accountants import account, epsilon_of
from lipdp.privacy.gaussian import gaussian_epsilon, total_mu
from lipdp.privacy.phase import (
    Phase,
    check_adjacency,
    check_delta,
    check_epsilon,
    check_sampling_rate,
    check_steps,
)

#: The search ends when this part of the target is used.
_USED = 0.9993
_AIM = 0.9997
#: With more than this part spent, hardly any noise would be enough.
_MOST_SPENT = 0.995
#: How much more noise than without amplification is tried on top of what was spent.
_MOST_NOISE = 1e4
#: Secant steps from an answer by a looser cost, and how much less noise each may try.
_STEPS_NEARER, _LEAST_FACTOR = 4, 0.5

Ahead = Callable[[float], Sequence[Phase]]
#: From a noise multiplier to epsilon.
Cost = Callable[[float], float]


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
    check_sampling_rate(sampling_rate)
    check_steps(steps)
    return calibrate(
        lambda noise_multiplier: [Phase(sampling_rate, noise_multiplier, steps)],
        epsilon,
        delta,
        accountant=accountant,
        adjacency=adjacency,
    )


def calibrate(
    ahead: Ahead,
    epsilon: float,
    delta: float,
    *,
    spent: Sequence[Phase] = (),
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> float:
    """Least noise multiplier with which the phases ahead keep the whole within epsilon.

    Guarantees: the epsilon computed anew from what was spent and ``ahead`` of the returned
    multiplier, with the same accountant, is at most the target.

    Args:
        ahead: From a noise multiplier to the phases that it sets; each multiplier among them
            grows in proportion to it.
        epsilon: Target, positive and finite.
        delta: Target delta, in (0, 1).
        spent: What was run before.
        accountant: ``"pld"`` or ``"rdp"``.
        adjacency: ``"add-remove"``, ``"zero-out"`` or ``"replace-one"``.

    Raises:
        InvalidValue: If a number is outside its domain, or what was spent leaves nothing.
        UnknownName: If accountant or adjacency is unknown.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    check_adjacency(adjacency)
    _check_left(spent, epsilon, delta, accountant, adjacency)
    mu = total_mu(ahead(1.0), adjacency)
    if mu == 0.0:
        return 0.0

    def cost_by(accountant: str, *, coarse: bool) -> Cost:
        return lambda noise_multiplier: (
            account(
                [*spent, *ahead(noise_multiplier)],
                delta,
                accountant=accountant,
                adjacency=adjacency,
                coarse=coarse,
            ).epsilon
        )

    # A coarse bound of what was spent may exceed the target for every noise.
    coarse = [] if spent else [cost_by("rdp", coarse=True), cost_by(accountant, coarse=True)]
    costs = [*coarse, cost_by(accountant, coarse=False)]
    return _least_noise(costs, mu / _full_batch_mu(epsilon, delta), epsilon)


def _check_left(
    spent: Sequence[Phase], epsilon: float, delta: float, accountant: str, adjacency: str
) -> None:
    before = account(spent, delta, accountant=accountant, adjacency=adjacency).epsilon
    if before >= _MOST_SPENT * epsilon:
        raise _nothing_left(before, epsilon)


def _nothing_left(cost: float, epsilon: float) -> InvalidValue:
    return InvalidValue(
        f"Earlier accesses to the rows cost epsilon {cost:.4g} and leave nothing",
        received=epsilon,
        fix="Use a larger epsilon",
    )


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


def _least_noise(costs: Sequence[Cost], enough: float, target: float) -> float:
    """A search by the cheapest and loosest cost first; the next then starts near the answer."""
    first, *others = costs
    low, high = _bracket(first, _Point(enough, first(enough)), target, ratio=0.5)
    low, high = _narrow(first, low, high, target)
    slowness = _slowness(low, high)
    for cost in others:
        low, high = _near(cost, high.noise, slowness, target)
        low, high = _narrow(cost, low, high, target)
        slowness = _slowness(low, high) or slowness
    return high.noise


def _near(cost: Cost, noise: float, slowness: float, target: float) -> tuple[_Point, _Point]:
    """A bracket by a cost that grows with less noise about as the one before, by secants."""
    start = _Point(noise, cost(noise))
    for _ in range(_STEPS_NEARER):
        if slowness == 0.0 or not 0.0 < start.epsilon < _USED * target:
            break
        factor = (start.epsilon / (_AIM * target)) ** slowness
        noise = start.noise * max(factor, _LEAST_FACTOR)
        closer = _Point(noise, cost(noise))
        if closer.epsilon > target:
            return closer, start
        start, slowness = closer, _slowness(closer, start)
    return _bracket(cost, start, target, ratio=0.97)


def _slowness(low: _Point, high: _Point) -> float:
    """By which power of epsilon the noise falls between two points; 0 if they do not tell."""
    if not 0.0 < high.epsilon < low.epsilon < math.inf:
        return 0.0
    return math.log(high.noise / low.noise) / math.log(low.epsilon / high.epsilon)


def _bracket(cost: Cost, high: _Point, target: float, ratio: float) -> tuple[_Point, _Point]:
    """Widens to both sides until one end costs too much and the other does not."""
    most = _MOST_NOISE * high.noise
    while high.epsilon > target:
        noise = high.noise / ratio
        if noise > most:
            raise _nothing_left(high.epsilon, target)
        high = _Point(noise, cost(noise))
    low = high
    while low.epsilon <= target and high.epsilon < _USED * target:
        noise = low.noise * ratio
        low, high = _Point(noise, cost(noise)), low
        ratio *= ratio
    return (low, high) if low.epsilon > target else (low, low)


def _narrow(cost: Cost, low: _Point, high: _Point, target: float) -> tuple[_Point, _Point]:
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
    ahead: Sequence[Phase],
    epsilon: float,
    delta: float,
    *,
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> int:
    """Most steps of the phases ahead, in their order, that keep the whole within epsilon.

    Args:
        spent: What was run before.
        ahead: What is wanted, one phase after the other.
        epsilon: The budget, for what was spent and the further steps together.
        delta: Target delta.
        accountant: ``"pld"`` or ``"rdp"``.
        adjacency: ``"add-remove"``, ``"zero-out"`` or ``"replace-one"``.

    Returns:
        0 if not one step fits.

    Raises:
        InvalidValue: If a number is outside its domain.
        UnknownName: If accountant or adjacency is unknown.
    """
    check_epsilon(epsilon)
    limit = sum(phase.steps for phase in ahead)

    def cost(steps: int) -> float:
        phases = [*spent, *first_steps(ahead, steps)]
        return epsilon_of(phases, delta, accountant=accountant, adjacency=adjacency)

    if limit == 0 or cost(limit) <= epsilon:
        return limit
    return 0 if cost(0) > epsilon else _last_within(cost, epsilon, limit)


def first_steps(phases: Sequence[Phase], steps: int) -> list[Phase]:
    """The phases up to a number of steps."""
    found = []
    for phase in phases:
        found.append(replace(phase, steps=min(phase.steps, steps)))
        steps -= found[-1].steps
    return found


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
