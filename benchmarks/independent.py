"""An independent numerical composition: no code of the package or of dp-accounting.

Losses of one step are moved to the nearest point of a grid, the error of their mean is corrected,
and the steps are composed by a Fourier transform. The result is neither an upper nor a lower
bound: it is the true value up to about the grid's width, where the losses fit on the grid.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize, special

Step = tuple[float, float, int]
#: By which parts of a grid's width losses may lie below a point and still count there.
_SLACKS = (0.002, 0.02, 0.1)


def composed(
    phases: Sequence[Step],
    delta: float,
    *,
    replaced: bool = False,
    grid: float = 1e-4,
    count: int = 2**19,
) -> float:
    """Epsilon of Poisson-sampled Gaussian steps, for a row added, removed, or replaced.

    The pairs of one step: ``(1 - q) N(0, z^2) + q N(1, z^2)`` and ``N(0, z^2)``, in both orders, or
    for a replacement ``(1 - q) N(0, z^2) + q N(1, z^2)`` and ``(1 - q) N(0, z^2) + q N(-1, z^2)``.

    Args:
        phases: Triples of sampling rate, noise multiplier and number of steps.
        delta: Target delta.
        replaced: Whether a row is replaced.
        grid: Distance of the points.
        count: Number of points; total losses must fit.
    """
    pairs = ("replaced",) if replaced else ("removed", "added")
    return max(_one_pair(pair, phases, delta, grid, count) for pair in pairs)


def enclosed(
    rate: float, noise: float, steps: int, delta: float, *, fixed_size: bool, count: int = 2**19
) -> tuple[float, float]:
    """Bounds of epsilon from both sides where a row is replaced.

    The losses above 0 are those of the pairs ``(1 - q) N(0, z^2) + q N(1, z^2)`` and
    ``(1 - q) N(0, z^2) + q N(-1, z^2)``, or for sets of a fixed size ``(1 - q) N(0) + q N(2)`` and
    ``N(0)``; the losses below 0 mirror them, and what is missing to 1 has the loss 0. Between two
    points of the grid the masses P and Q are either gathered at the loss ``log P/Q``, moved down
    to a grid between the points (below the truth), or divided among the two points (above it).

    Returns:
        A lower and an upper bound, but for the rounding of floating-point numbers.
    """
    reach = 9.7 * noise
    if fixed_size:
        most = float(np.log1p(rate * np.expm1(2.0 * (reach + 1.0) / noise**2)))
    else:
        most = float(np.log1p(rate * np.expm1((reach + 0.5) / noise**2)) - np.log1p(-rate))
    edges = most * np.linspace(0.0, 1.0, 1000)
    first, second = np.diff(_tails(edges, rate, noise, fixed_size)) * -1.0
    deviation = math.sqrt(float(((first + second) * edges[1:] ** 2).sum()) * steps)
    mean = steps * float(((first - second) * edges[1:]).sum())
    grid = 2.0 * (12.0 * deviation + 4.0 * most + mean / 1000.0) / count
    # Every second point is an edge.
    edges = 2.0 * grid * np.arange(min(int(most / (2.0 * grid)) + 2, count // 4))
    tails = _tails(edges, rate, noise, fixed_size)
    first, second = np.diff(tails) * -1.0
    beyond, rest = float(tails[0][-1]), max(0.0, 1.0 - float((tails[0] + tails[1])[0]))
    middle = round(mean / grid)
    points = grid * (np.arange(count) - count // 2 + middle)

    def bound(masses: np.ndarray, shift: float, infinite: float) -> float:
        total = np.fft.irfft(np.fft.rfft(masses) ** steps, count)
        total = np.roll(total, count // 2 - middle)
        if np.abs(total[: count // 64]).sum() + np.abs(total[-count // 64 :]).sum() > delta / 1e3:
            raise ValueError("the losses do not fit on the grid")
        return _epsilon(total, points + steps * shift, delta - steps * infinite)

    gathered = [
        (_gathered(edges, first, second, rest, grid, count, slack), -slack * grid)
        for slack in _SLACKS
    ]
    low = max(bound(masses, shift, 0.0) for masses, shift in gathered)
    return low, bound(_divided(edges, first, second, rest, count), 0.0, beyond)


def gaussian(mu: float, delta: float) -> float:
    """Epsilon of a Gaussian mechanism of that sensitivity over standard deviation."""

    def excess(epsilon: float) -> float:
        second = math.exp(epsilon + float(special.log_ndtr(-epsilon / mu - mu / 2.0)))
        return float(special.ndtr(mu / 2.0 - epsilon / mu)) - second - delta

    high = mu * mu / 2.0 + mu * (math.sqrt(2.0 * math.log(1.0 / delta)) + 1.0)
    return 0.0 if excess(0.0) <= 0.0 else float(optimize.brentq(excess, 0.0, high, xtol=1e-13))


def excess_of_gaussians(
    first: dict[float, float], second: dict[float, float], noise: float, epsilon: float
) -> float:
    """``int (p - e^epsilon q)_+`` of two mixtures of normal densities, centre to weight.

    By a sum over a grid, good to about 1e-6 relative.
    """
    low, high = min([*first, *second]) - 12.0 * noise, max([*first, *second]) + 12.0 * noise
    x = np.linspace(low, high, 400_001)

    def density(mixture: dict[float, float]) -> np.ndarray:
        parts = [w * np.exp(-0.5 * ((x - c) / noise) ** 2) for c, w in mixture.items()]
        return np.sum(parts, axis=0) / (noise * math.sqrt(2.0 * math.pi))

    gap = np.maximum(0.0, density(first) - math.exp(epsilon) * density(second))
    return float(gap.sum() * (x[1] - x[0]))


def _one_pair(pair: str, phases: Sequence[Step], delta: float, grid: float, count: int) -> float:
    spectrum, shift = np.ones(count // 2 + 1, dtype=complex), 0.0
    for rate, noise, steps in phases:
        transformed, missed = _transform(pair, rate, noise, grid, count)
        spectrum = spectrum * transformed**steps
        shift += steps * missed
    total = np.fft.fftshift(np.fft.irfft(spectrum, count))
    loss = (np.arange(count) - count // 2) * grid + shift

    return _epsilon(total, loss, delta)


def _epsilon(masses: np.ndarray, loss: np.ndarray, delta: float) -> float:
    def excess(epsilon: float) -> float:
        return float(-np.expm1(np.minimum(0.0, epsilon - loss)) @ masses) - delta

    return 0.0 if excess(0.0) <= 0 else float(optimize.brentq(excess, 0.0, loss[-1]))


def _tails(loss: np.ndarray, rate: float, noise: float, fixed_size: bool) -> np.ndarray:
    """Masses of P and Q above losses of at least 0, where a row is replaced."""
    if fixed_size:
        x = 2.0 * _where_removed(rate, noise / 2.0, loss)
        other = special.ndtr(-x / noise)
        return np.stack([(1 - rate) * other + rate * special.ndtr((2.0 - x) / noise), other])
    x = _where_replaced(rate, noise, loss)
    kept = (1 - rate) * special.ndtr(-x / noise)
    return np.stack([kept + rate * special.ndtr((y - x) / noise) for y in (1.0, -1.0)])


def _gathered(
    edges: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    rest: float,
    grid: float,
    count: int,
    slack: float,
) -> np.ndarray:
    """Masses at points that lie, that slack further down, at or below the gathered losses."""
    with np.errstate(all="ignore"):
        loss = np.log(first / second)
    loss = np.where((loss >= edges[:-1]) & (loss <= edges[1:]), loss, np.nan)
    masses = np.zeros(count)
    # Below 0 a mass of P is one of Q above 0, with the loss's sign changed.
    for mass, middle, low in ((first, loss, edges[:-1]), (second, -loss, -edges[1:])):
        point = np.floor(np.where(np.isnan(middle), low, middle) / grid + slack).astype(int)
        np.add.at(masses, point % count, mass)
    masses[0] += rest
    return masses


def _divided(
    edges: np.ndarray, first: np.ndarray, second: np.ndarray, rest: float, count: int
) -> np.ndarray:
    """Masses at the edges; those of P and of Q stay what they are."""
    width = edges[1] - edges[0]
    upper = np.clip((first - np.exp(edges[:-1]) * second) / -np.expm1(-width), 0.0, first)
    above = np.append(first - upper, 0.0)
    above[1:] += upper
    masses = np.zeros(count)
    masses[: 2 * len(above) : 2] = above
    below = above * np.exp(-edges)
    masses[0] += below[0] + rest
    masses[-2 * np.arange(1, len(below))] += below[1:]
    return masses


@functools.lru_cache(maxsize=4)
def _transform(
    pair: str, rate: float, noise: float, grid: float, count: int
) -> tuple[np.ndarray, float]:
    """Transform of one step's masses at the nearest points, and the mean that they miss."""
    edges = (np.arange(count + 1) - count // 2 - 0.5) * grid
    if pair == "replaced":
        x = _where_replaced(rate, noise, edges)
    else:
        x = _where_removed(rate, noise, edges if pair == "removed" else -edges)
    if pair == "added":
        below = special.ndtr(-x / noise)
    else:
        below = (1 - rate) * special.ndtr(x / noise) + rate * special.ndtr((x - 1) / noise)
    masses = np.diff(below)
    points = (np.arange(count) - count // 2) * grid
    missed = _mean_loss(pair, rate, noise) - float(masses @ points)
    return np.fft.rfft(np.fft.ifftshift(masses)), missed


def _mean_loss(pair: str, rate: float, noise: float) -> float:
    deviations = np.linspace(-12.0, 12.0, 200_001)
    density = np.exp(-(deviations**2) / 2) / np.sqrt(2 * np.pi) * (deviations[1] - deviations[0])

    def removed(x: np.ndarray) -> np.ndarray:
        loss = (2.0 * x - 1.0) / (2.0 * noise**2)
        return np.logaddexp(np.log1p(-rate), np.log(rate) + loss) if rate < 1 else loss

    def first(loss: Callable[[np.ndarray], np.ndarray]) -> float:
        at = deviations * noise
        return float(density @ ((1 - rate) * loss(at) + rate * loss(at + 1.0)))

    if pair == "added":
        return -float(density @ removed(deviations * noise))
    return first(removed) if pair == "removed" else first(lambda x: removed(x) - removed(-x))


def _where_removed(rate: float, noise: float, loss: np.ndarray) -> np.ndarray:
    """Where ``log(1 - q + q exp((2x - 1) / 2z^2))`` is the loss; -inf below the least one."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = np.log(np.expm1(loss) / rate + 1.0)
    return np.where(np.isnan(inner), -np.inf, inner * noise**2 + 0.5)


def _where_replaced(rate: float, noise: float, loss: np.ndarray) -> np.ndarray:
    """Where the density of the first mixture is ``e^loss`` times that of the second.

    With ``y = e^(x / z^2)`` and ``k = q e^(-1 / 2z^2)`` it solves the quadratic equation
    ``k y^2 - (1 - q)(e^loss - 1) y - k e^loss = 0``.
    """
    log_k = math.log(rate) - 0.5 / noise**2
    with np.errstate(all="ignore"):
        half = (1.0 - rate) * np.expm1(loss)
        root = np.sqrt(half**2 + 4.0 * np.exp(2.0 * log_k + loss))
        y = np.where(
            half >= 0,
            (half + root) / (2.0 * np.exp(log_k)),
            2.0 * np.exp(log_k + loss) / (root - half),
        )
        return noise**2 * np.log(y)
