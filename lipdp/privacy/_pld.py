"""An upper bound of epsilon by privacy loss distributions, from dp-accounting.

The library discretises pessimistically ("connect the dots", Doroshenko et al. 2022). What is
chosen here is the grid, so that a call stays small, and an allowance for rounding.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lipdp.privacy._rdp import divergences, orders
from lipdp.privacy.phase import POISSON, Draw, Phase

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


def offers_replacement() -> bool:
    """Whether this release of the library knows sampling under replace-one, and truncated draws."""
    from dp_accounting.pld import privacy_loss_distribution as library

    known = "neighboring_relation" in inspect.signature(library.from_gaussian_mechanism).parameters
    return known and hasattr(library, "from_truncated_subsampled_gaussian_mechanism")


def pld_epsilon(
    phases: Sequence[Phase], delta: float, size: Size = FINE, *, replaced: bool = False
) -> float:
    """Epsilon of the composed phases; infinite where the grid would be too wide.

    With ``replaced`` one row is replaced, otherwise added or removed. Draws that the library does
    not offer cost infinity here.

    A smaller delta than the one asked for is looked up: the difference pays for rounding.

    * One step: each hockey-stick divergence is a difference of two probabilities, off by some
      ulp; that much mass at infinity repairs it (it dominates the true pair), and T steps add up.
    * Fourier transforms: an output of a transform of length n is off by ``log2(n)`` ulp of the
      mass, and a T-th power by T times that. This is the size of the rounding error, not a
      theorem about the library's transform; the errors that were seen were tens of times smaller.
    """
    if not _offered(phases, replaced):
        return math.inf
    # A replaced row, and one that pushes another one out, move the sum by twice the bound.
    twice = replaced or any(phase.draw.name == "truncated-poisson" for phase in phases)
    factor = 0.5 if twice else 1.0
    reached = [replace(p, noise_multiplier=factor * p.noise_multiplier) for p in phases]
    grid = interval(reached, size)
    left = delta - _rounding(reached, size)
    if grid > _WIDEST or left <= 0.0:
        return math.inf
    value = _look_up(phases, grid, left, replaced)
    return value * (1.0 + 1e-12) if value >= 0.0 else math.inf


def _offered(phases: Sequence[Phase], replaced: bool) -> bool:
    names = {phase.draw.name for phase in phases}
    if "fixed-size" in names:
        return False
    return offers_replacement() or not (replaced or "truncated-poisson" in names)


def _look_up(phases: Sequence[Phase], grid: float, delta: float, replaced: bool) -> float:
    """Some releases refuse a fine grid on which rounding makes a divergence grow: widen it."""
    for factor in (1, 8, 64):
        with contextlib.suppress(ValueError), np.errstate(over="ignore"):
            composed = _compose(phases, factor * grid, replaced)
            return float(composed.get_epsilon_for_delta(delta))
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
    return Phase(1.0, phase.noise_multiplier / math.sqrt(phase.steps), 1, phase.draw)


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
    # The width decides how fine the grid is, not whether the result is a bound.
    poisson = [replace(phase, draw=POISSON) for phase in phases]
    bounds = divergences(poisson, coarse=True) * np.maximum(1.0, exponent / (alpha - 1.0))
    steps = sum(phase.steps for phase in phases)
    return min(one_step * steps, 2.0 * float(np.min(bounds + 36.0 / exponent)))


@functools.lru_cache(maxsize=16)
def _one_step(
    sampling_rate: float, noise_multiplier: float, draw: Draw, grid: float, replaced: bool
) -> Any:
    """Loss distribution of one step, with arrays inside.

    The library keeps small distributions in dictionaries, whose size it raises to the power of
    the steps before it composes them: minutes for a million steps.
    """
    from dp_accounting.pld import privacy_loss_distribution as library

    if draw.name == "truncated-poisson":
        found = _truncated(sampling_rate, noise_multiplier, draw, grid, replaced)
    elif sampling_rate == 1.0:
        multiplier = noise_multiplier / 2.0 if replaced else noise_multiplier
        found = library.from_gaussian_mechanism(multiplier, value_discretization_interval=grid)
    else:
        found = library.from_gaussian_mechanism(
            standard_deviation=noise_multiplier,
            sampling_prob=sampling_rate,
            value_discretization_interval=grid,
            **(_replacement() if replaced else {}),
        )
    remove = found._pmf_remove.to_dense_pmf()
    symmetric = found._pmf_add is found._pmf_remove or sampling_rate == 1.0
    add = None if symmetric else found._pmf_add.to_dense_pmf()
    return library.PrivacyLossDistribution(remove, add)


def _truncated(
    sampling_rate: float, noise_multiplier: float, draw: Draw, grid: float, replaced: bool
) -> Any:
    """Truncated draws; the larger one of two neighbours has one row more than N."""
    from dp_accounting.pld import privacy_loss_distribution as library

    return library.from_truncated_subsampled_gaussian_mechanism(
        dataset_size=draw.num_examples + 1,
        sampling_probability=sampling_rate,
        truncated_batch_size=draw.most_rows,
        noise_multiplier=noise_multiplier,
        value_discretization_interval=grid,
        **(_replacement() if replaced else {}),
    )


def _replacement() -> dict[str, Any]:
    from dp_accounting.privacy_accountant import NeighboringRelation

    return {"neighboring_relation": NeighboringRelation.REPLACE_ONE}


def _compose(phases: Sequence[Phase], grid: float, replaced: bool) -> Any:
    parts = [_phase(_as_step(phase), grid, replaced) for phase in phases]
    return functools.reduce(lambda one, other: one.compose(other), parts)


def _phase(phase: Phase, grid: float, replaced: bool) -> Any:
    step = _one_step(phase.sampling_rate, phase.noise_multiplier, phase.draw, grid, replaced)
    return step if phase.steps == 1 else step.self_compose(phase.steps)
