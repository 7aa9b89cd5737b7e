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

from lipdp.privacy.phase import ADJACENCIES, Phase

_ROUNDING = 16 * 2.0**-53


def total_mu(phases: Iterable[Phase], adjacency: str = "add-remove") -> float:
    """``sqrt(sum steps (c / z)^2)``, as if every row were in every batch; infinite without noise.

    A neighbour changes the sum by c times the bound of one row. Drawing fewer rows only mixes such
    a pair with equal ones. A row that is added to a truncated draw may push another one out: c is
    2 there.

    Args:
        phases: What was run.
        adjacency: Name of a known relation.
    """
    terms = [change(phase, adjacency) * _per_row(phase) for phase in phases if phase.steps]
    return math.hypot(*terms) * (1.0 + _ROUNDING) if terms else 0.0


def change(phase: Phase, adjacency: str) -> float:
    """By how many times the bound of one row a neighbour changes the sum."""
    pushed_out = phase.draw.name == "truncated-poisson" and adjacency == "add-remove"
    return 2.0 if pushed_out else ADJACENCIES[adjacency]


def _per_row(phase: Phase) -> float:
    if phase.noise_multiplier == 0.0:
        return math.inf
    return math.sqrt(phase.steps) / phase.noise_multiplier


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
