"""Privacy losses of one sampled Gaussian step in which a row is replaced by another.

**Setting.** In standard deviations of the noise rows lie in a ball of radius ``t = 1/z``. With R
the noisy sum where the row in question is not drawn, and P1 and Q1 where it and its replacement
are, the neighbours give ``P = (1 - q) R + q P1`` and ``Q = (1 - q) R + q Q1``. A pair that is at
least as far apart at *every* order ``a > 0``, ``H_a(P || Q) = sup P(E) - a Q(E)``, may take its
place in any composition, also an adaptive one (Zhu, Dong and Wang 2022, Theorem 10). As
``H_a(P || Q) = 1 - a + a H_{1/a}(Q || P)`` and the neighbours may change places, it is enough that
a pair that has the same divergences in both directions bounds them for ``a >= 1``.

**The pair.** With phi the normal density and c the centre of R, on ``x > 0``

    p(x) = (1 - q) phi(x - c) + q phi(x - t),   q(x) = (1 - q) phi(x - c) + q phi(x + t),

on ``x < 0`` the same with the sides and p and q exchanged, and what is missing to 1 in a point
where both agree. The loss ``log p/q`` grows with x, and has the sign of x: for ``a >= 1``

    h(a) = P(X > x) - a Q(X > x)   where   p(x) = a q(x).

**Rows drawn by themselves**, ``c = 0``: nothing is missing. Fix the other rows that are drawn: R
is a normal density at 0, P1 and Q1 are at u and v. Seen from u, the divergence
``int (q phi(x) - (a - 1)(1 - q) phi(x + u) - a q phi(x + u - v))_+`` for ``a >= 1`` grows with the
correlation of the two likelihood ratios (Slepian: a convex function of their sum) and with the
distances: it is largest at ``v = -u``, ``|u| = t``, which is the pair above.

**Sets of a fixed size**, ``c = -t``, ``b < N``: the missing mass is ``(1 - q)(Phi(t) - Phi(-t))``.
With ``a = 1 + q (s - 1)`` and ``s >= 1``, without any inequality,

    P - a Q = q (P1 - s ((1 - r) R + r Q1)),   r = a / s in [0, 1].

A set without the row is a set of ``b - 1`` others and one more of them, drawn with equal
probabilities; a set with the row is such ``b - 1`` others and the row. Given the ``b - 1`` and the
one more, P1 is normal around the row, Q1 around its replacement and R around the one more, each at
most ``2 t`` from the row. Divergences are jointly convex, and those of two normal laws grow with
their distance, so ``H_a(P || Q) <= q H_s(N(t) || N(-t))``, for all other rows and in every
dimension. The right-hand side is ``H_a((1 - q) N(-t) + q N(t) || N(-t)) = h(a)``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

_U = 2.0**-53
#: Loss distributions end where a normal variable has 1e-22 of its mass left.
_TAIL = 9.7
#: Added for what is too small for a floating-point number.
_UNDERFLOW = 1e-300
#: Beyond so many deviations nothing but ``_UNDERFLOW`` is left.
_BEYOND = 38.0
#: Rows that are nearer than this in standard deviations have a bound in closed form.
_NEAR = 1e-3


def replaced_losses(
    sampling_rate: float, noise_multiplier: float, grid: float, *, fixed_size: bool
) -> tuple[np.ndarray, float]:
    """Masses of a discrete pair that is at least as far apart as any two neighbours.

    **Discretisation** ("connect the dots", Doroshenko et al. 2022). Let ``g_i >= h(a_i)`` at
    ``a_i = e^(i w)``, i from 0 to n. As h is convex and falls, it is at most the function that
    joins the ``g_i`` by lines and ends in the constant ``g_n``. That function is
    ``g_n + sum_{i >= 1} p_i (1 - a e^(-i w))_+`` with second differences ``p_i`` of g; a negative
    ``p_i`` that is taken as 0 makes it no smaller. So ``p_i`` at the loss ``i w`` and ``g_n`` at
    infinity bound h for ``a >= 1``. The masses ``p_i e^(-i w)`` at ``-i w`` and the rest at 0 make
    it a pair with the same divergences in both directions, and bound it for ``a < 1``.

    **Rounding.** ``h = q (S(x - t) - S(x + t)) - (a - 1) Q(X > x)``, S the normal tail, is
    stationary in x, so that an error of x counts squared. The normal tails are off by some ulp
    times ``1 + x^2 + t^2``, products with a by ``log a`` more; 16 times that is added to g
    (``test_the_divergences_are_rounded_up``). Where t is small the difference of the tails is
    ``int phi(x + s) ds`` over ``|s| <= t``, at most ``2 phi(x) sinh(t x) / x``, a bound that is
    off by the factor ``e^(t^2/2)`` at most.

    Args:
        sampling_rate: Probability q that the row is drawn, below 1.
        noise_multiplier: Standard deviation z of the noise over the bound of one row.
        grid: Distance w of the losses.
        fixed_size: Whether batches have a fixed size; otherwise rows are drawn by themselves.

    Returns:
        Masses of the losses from ``-n w`` to ``n w``, and the mass at infinity. All infinite
        where the masses do not fit: nothing is known then.
    """
    most = largest_loss(sampling_rate, noise_multiplier, fixed_size=fixed_size)
    count = max(1, math.ceil(most / grid))
    bounds = _divergences(
        np.arange(count + 1.0) * grid, sampling_rate, 1.0 / noise_multiplier, fixed_size
    )
    falls = bounds[:-1] - bounds[1:]
    above, below = falls / -math.expm1(-grid), np.append(falls[1:], 0.0) / math.expm1(grid)
    gained = np.maximum(0.0, above - below + 8.0 * _U * (np.abs(above) + np.abs(below)))
    lost = gained * np.exp(-grid * np.arange(1.0, count + 1.0))
    infinite = float(bounds[-1])
    rest = 1.0 - float(gained.sum()) - float(lost.sum()) - infinite
    if rest < 0.0:
        return np.concatenate([np.zeros(count), [0.0], np.zeros(count)]), 1.0
    return np.concatenate([lost[::-1], [rest], gained]), infinite


def largest_loss(sampling_rate: float, noise_multiplier: float, *, fixed_size: bool) -> float:
    """The loss beyond which a mass of 1e-22 is left."""
    t = 1.0 / noise_multiplier
    x = t + _TAIL
    if fixed_size:
        return log_mixture(sampling_rate, 2.0 * t * x)
    shift = t * t / 2.0
    above = log_mixture(sampling_rate, t * x - shift)
    return above - log_mixture(sampling_rate, -t * x - shift)


def log_mixture(rate: float, loss: float) -> float:
    """``log(1 - q + q e^loss)``."""
    if rate == 1.0:
        return loss
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + loss))


def _divergences(losses: np.ndarray, rate: float, t: float, fixed_size: bool) -> np.ndarray:
    """Upper bounds of h at ``a = e^loss``."""
    x = np.minimum(_where(losses, rate, t, fixed_size), t + _BEYOND)
    near, far = np.exp(special.log_ndtr(t - x)), np.exp(special.log_ndtr(-t - x))
    kept = special.log_ndtr(-t - x if fixed_size else -x)
    log_q = np.logaddexp(math.log1p(-rate) + kept, math.log(rate) + special.log_ndtr(-t - x))
    second = np.exp(losses + log_q) * -np.expm1(-losses)
    first, error = rate * (near - far), rate * near
    if t < _NEAR:
        density = np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
        first = error = 2.0 * rate * t * density * _sinh_ratio(t * x)
    error = 16.0 * _U * (4.0 + x * x + t * t + losses) * (error + second)
    return np.maximum(0.0, first - second) + error + _UNDERFLOW


def _sinh_ratio(y: np.ndarray) -> np.ndarray:
    """``sinh(y) / y``."""
    return np.sinh(y) / np.where(y == 0.0, 1.0, y) + (y == 0.0)


def _where(losses: np.ndarray, rate: float, t: float, fixed_size: bool) -> np.ndarray:
    """The x of a loss: ``1 - q + q e^(2 t x) = a``, or a quadratic equation for ``e^(t x)``.

    The latter is ``sinh(t x - loss/2) = sinh(loss/2) e^(t^2/2) (1 - q) / q``.
    """
    with np.errstate(divide="ignore"):
        if fixed_size:
            small = np.log1p(np.expm1(np.minimum(losses, 1.0)) / rate)
            large = losses - math.log(rate) + np.log1p(-(1.0 - rate) * np.exp(-losses))
            return np.where(losses < 1.0, small, large) / (2.0 * t)
        odds = math.log1p(-rate) - math.log(rate) + t * t / 2.0
        # log sinh(loss/2) + odds, -inf at the loss 0
        log = odds + losses / 2.0 + np.log(-np.expm1(-losses)) - math.log(2.0)
    small, large = np.arcsinh(np.exp(np.minimum(log, 20.0))), log + math.log(2.0)
    return (np.where(log < 20.0, small, large) + losses / 2.0) / t
