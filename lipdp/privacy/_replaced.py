"""Renyi divergences of one sampled Gaussian step in which a row is replaced by another.

The library offers none under Poisson sampling; its bound for batches of a fixed size loses a
factor 4, and its differences lose their digits where there is much noise. Privacy loss
distributions of such a step are in ``_replaced_losses``.

**Setting.** Fix the other rows that are drawn, and for a fixed size the row that is drawn instead
of the one in question. With R the noisy sum without that row and P1, Q1 with it and with its
replacement, the two neighbours give ``P = (1 - q) R + q P1`` and ``Q = (1 - q) R + q Q1``; what
was fixed is independent of the draw and has the same law for both, and ``E_Q (P/Q)^a`` is jointly
convex. As ``E_Q (P/Q - 1) = 0``, for whole a

    E_Q (P/Q)^a <= 1 + sum_{j=2}^a C(a, j) q^j m_j,   m_j = int |P1 - Q1|^j Q^{1-j},

and as ``r -> r^{1-j}`` is convex, ``m_j <= (1 - q) m_j(R) + q m_j(Q1)``, where ``m_j(S)`` has S in
the place of Q.

**Moments.** ``P1/S - Q1/S`` has a Hermite series without constant term. Its parts of degree n are
multiplied by at most ``(j - 1)^{n/2}`` in the norm of L^j against that of L^2 (Nelson's
hypercontractivity), so with ``k = j - 1`` and u, v the centres of P1 and Q1 seen from that of S,
in standard deviations,

    m_j(S) <= (e^{k |u|^2} + e^{k |v|^2} - 2 e^{k <u, v>})^{j/2}.

With ``t = 1/z`` for one row's bound, ``|u - v| <= 2 t``. The right-hand side grows with
``|u - v|`` and then with ``|u|`` and ``|v|``, so it is largest

* under Poisson sampling from R, ``|u|, |v| <= t``, at ``v = -u``: ``(4 sinh(k t^2))^{j/2}``;
* at a fixed size from R, ``|u|, |v| <= 2 t``, where all three are ``2 t`` apart:
  ``(2 e^{4 k t^2} - 2 e^{2 k t^2})^{j/2}``;
* in both cases from Q1, ``v = 0`` and ``|u| <= 2 t``: ``(e^{4 k t^2} - 1)^{j/2}``.

Beside, ``|a - b|^j <= a^j + b^j`` gives ``m_j(S) <= e^{j k |u|^2 / 2} + e^{j k |v|^2 / 2}``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

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
