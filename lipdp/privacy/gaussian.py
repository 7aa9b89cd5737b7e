"""The Gaussian mechanism without sampling: a closed form.

With ``mu = sqrt(sum 1 / z^2)`` over all steps, adaptive composition is exactly one Gaussian
mechanism of that mu (Dong, Roth, Su 2022, Corollary 2), and
``delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)`` (Balle, Wang 2018, Theorem 8).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy import optimize, special

from lipdp.privacy.phase import Phase

_ROUNDING = 16 * 2.0**-53


def total_mu(phases: Iterable[Phase]) -> float:
    """``sqrt(sum steps / z^2)``, as if every row were in every batch; infinite without noise.

    A row that is added to a truncated draw may push another one out: it changes the sum by twice
    its own bound.
    """
    terms = [_mu(phase) for phase in phases if phase.steps]
    return math.hypot(*terms) * (1.0 + _ROUNDING) if terms else 0.0


def _mu(phase: Phase) -> float:
    if phase.noise_multiplier == 0.0:
        return math.inf
    rows_changed = 2.0 if phase.draw.name == "truncated-poisson" else 1.0
    return rows_changed * math.sqrt(phase.steps) / phase.noise_multiplier


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon of a Gaussian mechanism, never below the true one.

    With ``eps = mu^2/2 + mu t`` the formula is ``phi(t) (M(t) - M(t + mu))``, M the Mills ratio
    ``Phi(-x) / phi(x)``: no cancellation between large terms. The rounding of the two ratios is
    added before solving, so that the solution errs to the safe side.

    Args:
        mu: Sensitivity over standard deviation, at least 0.
        delta: Target delta.
    """
    if mu == 0.0 or log_delta(-mu / 2.0, mu) <= math.log(delta):
        return 0.0
    if not math.isfinite(mu * mu):
        return math.inf
    lower, upper = -mu / 2.0, math.sqrt(2.0 * math.log(1.0 / delta)) + 1.0
    target = math.log(delta)
    root = optimize.brentq(
        lambda t: log_delta(t, mu) - target, lower, upper, xtol=1e-14, maxiter=500
    )
    safe = _step_to_safe_side(float(root), mu, target)
    return max(0.0, mu * (mu / 2.0 + safe) * (1.0 + _ROUNDING)) + mu * _ROUNDING


def _step_to_safe_side(root: float, mu: float, target: float) -> float:
    step = 1e-14 * max(1.0, abs(root))
    while log_delta(root, mu) > target:
        root += step
        step *= 2.0
    return root


def log_delta(t: float, mu: float) -> float:
    """Log of an upper bound of delta at ``eps = mu^2/2 + mu t``."""
    if t < -30.0:  # delta is 1 up to 1e-197
        return 0.0
    root_half = math.sqrt(0.5)
    near = float(special.erfcx(t * root_half)) * (1.0 + _ROUNDING)
    far = float(special.erfcx((t + mu) * root_half)) * (1.0 - _ROUNDING)
    with np.errstate(divide="ignore"):
        return float(np.log(0.5 * (near - far))) - t * t / 2.0 * (1.0 - _ROUNDING)
