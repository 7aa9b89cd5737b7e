"""An upper bound of epsilon by privacy loss distributions, from dp-accounting.

The library discretises pessimistically ("connect the dots", Doroshenko et al. 2022). What is
chosen here is the grid, so that a call stays small, and an allowance for rounding.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipdp.privacy._rdp import divergences, orders
from lipdp.privacy.phase import Phase

_U = 2.0**-53
#: The library drops noise of log-probability below -50: 9.7 standard deviations.
_TAIL = 9.7
#: The library moves this mass to infinity at each composition.
_TRUNCATION = 1e-15


@dataclass(frozen=True)
class Size:
    """How many grid points a computation may take.

    Attributes:
        step: For one step.
        composed: For the composition of up to 10^4 steps. The error of the discretisation grows
            with steps times the squared width, so more steps get more points, up to four times.
    """

    step: int
    composed: int

    def composed_points(self, steps: int) -> float:
        """For the composition of so many steps."""
        return self.composed * min(4.0, max(1.0, math.sqrt(steps / 1e4)))


FINE = Size(step=2**15, composed=2**17)
COARSE = Size(step=2**11, composed=2**13)
#: A wider grid tells nothing; Renyi divergences answer there.
_WIDEST = 0.25


def pld_epsilon(phases: Sequence[Phase], delta: float, size: Size = FINE) -> float:
    """Epsilon of the composed phases; infinite where the grid would be too wide.

    A smaller delta than the one asked for is looked up: the difference pays for rounding.

    * One step: each hockey-stick divergence is a difference of two probabilities, off by some
      ulp; that much mass at infinity repairs it (it dominates the true pair), and T steps add up.
    * Fourier transforms: an output of a transform of length n is off by ``log2(n)`` ulp of the
      mass, and a T-th power by T times that. This is the size of the rounding error, not a
      theorem about the library's transform; the errors that were seen were tens of times smaller.
    """
    grid = interval(phases, size)
    if grid > _WIDEST:
        return math.inf
    left = delta - _rounding(phases, size)
    if left <= 0.0:
        return math.inf
    value = _look_up(phases, grid, left)
    return value * (1.0 + 1e-12) if value >= 0.0 else math.inf


def _look_up(phases: Sequence[Phase], grid: float, delta: float) -> float:
    """Some releases refuse a fine grid on which rounding makes a divergence grow: widen it."""
    for factor in (1, 8, 64):
        with contextlib.suppress(ValueError), np.errstate(over="ignore"):
            return float(_compose(phases, factor * grid).get_epsilon_for_delta(delta))
    return math.inf


def _rounding(phases: Sequence[Phase], size: Size) -> float:
    per_step = 16.0 * (2.0 + math.log2(size.composed))
    steps = sum(phase.steps for phase in phases if phase.sampling_rate < 1.0)
    spread = sum(phase.steps * 4.0 * _loss_range(phase) for phase in phases)
    return _U * (per_step * (steps + len(phases)) + spread) + len(phases) * _TRUNCATION


def interval(phases: Sequence[Phase], size: Size = FINE) -> float:
    """Grid width, a power of two: never smaller for more steps or less noise.

    Grids of that kind are nested, and the coarser of two nested grids gives the larger epsilon,
    so epsilon stays monotone across a change of the grid.
    """
    one_step = sum(_loss_range(_as_step(phase)) for phase in phases)
    points = size.composed_points(sum(phase.steps for phase in phases))
    composed = _composed_range(phases, one_step) / points
    needed = max(one_step / size.step, composed, 2.0**-40)
    return math.inf if needed > _WIDEST else 2.0 ** math.ceil(math.log2(needed))


def _as_step(phase: Phase) -> Phase:
    """T full-batch steps are one Gaussian step of less noise."""
    if phase.sampling_rate < 1.0:
        return phase
    return Phase(1.0, phase.noise_multiplier / math.sqrt(phase.steps), 1)


def _loss_range(phase: Phase) -> float:
    """Width of the privacy losses of one step that the library keeps."""
    z, q = phase.noise_multiplier, phase.sampling_rate
    high = _log_mixture(q, (_TAIL + 0.5 / z) / z)
    low = _log_mixture(q, -(_TAIL + 0.5 / z) / z)
    return high - low


def _log_mixture(q: float, loss: float) -> float:
    """``log(1 - q + q e^loss)``."""
    if q == 1.0:
        return loss
    return float(np.logaddexp(math.log1p(-q), math.log(q) + loss))


def _composed_range(phases: Sequence[Phase], one_step: float) -> float:
    """Width that the library keeps after composition: a Chernoff bound of mass 5e-16 a side.

    It tries exponents between 1 and 20 over the width of one step.
    """
    if len(phases) == 1 and _as_step(phases[0]).steps == 1:
        return one_step
    alpha = orders(coarse=True)
    exponent = np.clip(alpha - 1.0, 1.0 / one_step, 20.0 / one_step)
    bounds = divergences(phases, coarse=True) * np.maximum(1.0, exponent / (alpha - 1.0))
    steps = sum(phase.steps for phase in phases)
    return min(one_step * steps, 2.0 * float(np.min(bounds + 36.0 / exponent)))


@functools.lru_cache(maxsize=16)
def _one_step(sampling_rate: float, noise_multiplier: float, grid: float) -> Any:
    """Loss distribution of one step, with arrays inside.

    The library keeps small distributions in dictionaries, whose size it raises to the power of
    the steps before it composes them: minutes for a million steps.
    """
    from dp_accounting.pld import privacy_loss_distribution

    found = privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=noise_multiplier,
        sampling_prob=sampling_rate,
        value_discretization_interval=grid,
    )
    remove = found._pmf_remove.to_dense_pmf()
    add = None if sampling_rate == 1.0 else found._pmf_add.to_dense_pmf()
    return privacy_loss_distribution.PrivacyLossDistribution(remove, add)


def _compose(phases: Sequence[Phase], grid: float) -> Any:
    parts = [_phase(_as_step(phase), grid) for phase in phases]
    return functools.reduce(lambda one, other: one.compose(other), parts)


def _phase(phase: Phase, grid: float) -> Any:
    step = _one_step(phase.sampling_rate, phase.noise_multiplier, grid)
    return step if phase.steps == 1 else step.self_compose(phase.steps)
