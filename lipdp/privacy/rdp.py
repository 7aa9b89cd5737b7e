"""An upper bound of epsilon by Renyi divergences, from dp-accounting, with its rounding added."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from lipdp.privacy.phase import ADJACENCIES, Phase

_U = 2.0**-53
_LOG_2 = math.log(2.0)
#: Instead of, or beside, what is too small for a floating-point number.
_UNDERFLOW = 1e-300


def replaced_divergences(
    orders: np.ndarray, sampling_rate: float, noise_multiplier: float, *, fixed_size: bool
) -> np.ndarray:
    """Upper bounds of the divergence of one step, one a whole order.

    Args:
        orders: Whole numbers of at least 2.
        sampling_rate: Probability q that the row is drawn, below 1.
        noise_multiplier: Standard deviation of the noise over the bound of one row, at least 1e-3.
        fixed_size: Whether batches have a fixed size; otherwise rows are drawn by themselves.
    """
    j = np.arange(2.0, float(orders.max()) + 1.0)
    square = noise_multiplier**-2.0
    moments = _fixed_size(j, square) if fixed_size else _poisson(j, square, sampling_rate)
    return np.array([_divergence(int(a), math.log(sampling_rate), moments) for a in orders])


def _divergence(order: int, log_rate: float, log_moments: np.ndarray) -> float:
    """``log(1 + sum C(a, j) q^j m_j) / (a - 1)``; what rounding may take is added to each term."""
    j = np.arange(2.0, order + 1.0)
    parts = [
        np.full(len(j), special.gammaln(order + 1.0)),
        -special.gammaln(j + 1.0),
        -special.gammaln(order - j + 1.0),
        j * log_rate,
        log_moments[: len(j)],
    ]
    terms = np.sum(parts, axis=0) + 16.0 * _U * (np.sum(np.abs(parts), axis=0) + 1.0)
    value = float(np.logaddexp(0.0, special.logsumexp(terms))) / (order - 1)
    return value * (1.0 + 1e-11) + _UNDERFLOW


def _poisson(j: np.ndarray, square: float, rate: float) -> np.ndarray:
    """Logarithms of ``m_j`` for rows drawn by themselves; square is ``t^2``."""
    x = (j - 1.0) * square
    kept = np.minimum(j / 2.0 * _log_difference(x, -x, 2.0), _LOG_2 + j * x / 2.0)
    drawn = np.minimum(j / 2.0 * _log_difference(4.0 * x, 0.0, 1.0), _LOG_2 + 2.0 * j * x)
    return np.logaddexp(math.log1p(-rate) + kept, math.log(rate) + drawn)


def _fixed_size(j: np.ndarray, square: float) -> np.ndarray:
    """Logarithms of ``m_j`` at a fixed size: from R, where it is larger than from Q1."""
    x = (j - 1.0) * square
    return np.minimum(j / 2.0 * _log_difference(4.0 * x, 2.0 * x, 2.0), _LOG_2 + 2.0 * j * x)


def _log_difference(high: np.ndarray, low: np.ndarray | float, factor: float) -> np.ndarray:
    """``log(factor (e^high - e^low))``, rounded up."""
    log = np.log(np.maximum(-np.expm1(low - high), _UNDERFLOW))
    return high + log + math.log(factor) + 8.0 * _U * (1.0 + high + np.abs(log))


_FINE = (
    *(1.02, 1.05),
    *(order / 10 for order in range(11, 110)),
    *range(11, 64),
    *(72, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 2048, 4096),
)
_COARSE = (1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 6, 8, 11, 16, 23, 32, 45, 64, 128, 512)
#: More noise than this costs no less here, as its square would overflow.
MOST_NOISE = 1e100


def orders(*, coarse: bool = False) -> np.ndarray:
    """The orders at which divergences are computed."""
    return np.array(_COARSE if coarse else _FINE, dtype=np.float64)


def divergences(
    phases: Sequence[Phase], adjacency: str = "add-remove", *, coarse: bool = False
) -> np.ndarray:
    """Upper bounds of the Renyi divergence of the composed phases, one an order."""
    total = np.zeros(len(orders(coarse=coarse)))
    for phase in phases:
        total += phase.steps * _one_step(phase, adjacency, coarse)
    return total


def _one_step(phase: Phase, adjacency: str, coarse: bool) -> np.ndarray:
    q, draw = phase.sampling_rate, phase.draw.name
    z = min(phase.noise_multiplier, MOST_NOISE)
    if draw == "truncated-poisson":
        return np.full(len(orders(coarse=coarse)), np.inf)  # no bound is known
    if adjacency == "replace-one" and q < 1.0:
        return _replaced_step(q, z, draw == "fixed-size", coarse)
    return _poisson_step(q, z / ADJACENCIES[adjacency], coarse)


def rdp_epsilon(
    phases: Sequence[Phase], delta: float, adjacency: str = "add-remove", *, coarse: bool = False
) -> float:
    """Epsilon of the composed phases by Renyi divergences; infinite if no order converges."""
    return epsilon_of_divergences(divergences(phases, adjacency, coarse=coarse), delta, coarse)


def epsilon_of_divergences(bounds: np.ndarray, delta: float, coarse: bool = False) -> float:
    """Epsilon of what has these divergences at ``orders``; infinite if none is finite."""
    from dp_accounting import rdp

    finite = np.isfinite(bounds)
    if not finite.any():
        return math.inf
    value, _ = rdp.compute_epsilon(orders(coarse=coarse)[finite], bounds[finite], delta)
    return float(value) * (1.0 + 1e-12)


@functools.lru_cache(maxsize=256)
def _poisson_step(sampling_rate: float, noise_multiplier: float, coarse: bool) -> np.ndarray:
    """Divergence of one step plus the rounding of its computation.

    Near 0 a divergence is the logarithm of a sum close to 1, and rounding can make it 0 or
    negative: the sum's terms carry log-binomials with an error of some ulp of ``alpha log alpha``,
    and the series for fractional orders stops at a relative ``e^-30 < 1e-13``.
    """
    from dp_accounting import rdp

    alpha = orders(coarse=coarse)
    kept = noise_multiplier <= _noise_limits(alpha)
    accountant = rdp.RdpAccountant(alpha[kept])
    with _quiet(), np.errstate(all="ignore"):
        accountant.compose(Phase(sampling_rate, noise_multiplier, 1).event)
    size = abs(math.log(sampling_rate)) + np.log(alpha + 2.0) + 4.0
    rounding = (8.0 * _U * (alpha + 1.0) * size + 1e-12 * (alpha % 1.0 > 0.0)) / (alpha - 1.0)
    found = np.full_like(alpha, np.inf)
    found[kept] = np.nan_to_num(accountant._rdp, nan=np.inf, posinf=np.inf)
    return _frozen(np.maximum(found, 0.0) * (1.0 + 1e-11) + rounding)


@functools.lru_cache(maxsize=256)
def _replaced_step(
    sampling_rate: float, noise_multiplier: float, fixed_size: bool, coarse: bool
) -> np.ndarray:
    """Divergence of one step where one row is replaced, at whole orders."""
    alpha = orders(coarse=coarse)
    whole = alpha % 1.0 == 0.0
    found = np.full_like(alpha, np.inf)
    found[whole] = replaced_divergences(
        alpha[whole], sampling_rate, noise_multiplier, fixed_size=fixed_size
    )
    return _frozen(found)


def _frozen(values: np.ndarray) -> np.ndarray:
    values.setflags(write=False)
    return values


def _noise_limits(alpha: np.ndarray) -> np.ndarray:
    """Most noise at which an order is worth its time, infinite for whole orders.

    The series of a fractional order takes ever more terms with more noise, while the divergence
    becomes smooth in the order, so that fewer orders do.
    """
    whole, few = alpha % 1.0 == 0.0, (alpha % 0.5 == 0.0) | (alpha < 2.0)
    return np.select([whole, few], [np.inf, 30.0], 4.0)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Orders whose series does not converge are left out: no reason to warn."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
