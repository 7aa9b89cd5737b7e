"""An upper bound of epsilon by privacy loss distributions, composed by dp-accounting.

Losses are discretised pessimistically ("connect the dots", Doroshenko et al. 2022): by the
library, or where a row is replaced by ``_replaced_losses``. What is chosen here is the grid, so
that a call stays small, and an allowance for rounding.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from lipdp.privacy.phase import POISSON, Draw, Phase
from lipdp.privacy.rdp import MOST_NOISE, divergences, orders

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
COARSE = Size(step=2**13, composed=2**14)
#: A wider grid tells nothing; Renyi divergences answer there.
_WIDEST = 0.25


def offers_truncation() -> bool:
    """Whether this release of the library knows truncated draws."""
    from dp_accounting.pld import privacy_loss_distribution as library

    return hasattr(library, "from_truncated_subsampled_gaussian_mechanism")


def pld_epsilon(
    phases: Sequence[Phase], delta: float, adjacency: str = "add-remove", size: Size = FINE
) -> float:
    """Epsilon of the composed phases; infinite where the grid would be too wide.

    Draws that the library does not offer under the adjacency cost infinity here. Noise multipliers
    are over the bound of one row.

    **Replace-one.** The pair of ``_replaced_losses``, which is proved there.

    **Truncated draws.** Given what the others draw, a row that is drawn takes a place that is
    free, or in a full batch that of another one. The pair of the second case is bounded by that
    of a replacement at the doubled bound, also for a row that is emptied (Ganesh et al. 2025).
    The probabilities depend on the number of other rows, one more or one less for a row that is
    added or removed, in no fixed direction: the larger epsilon counts.

    A smaller delta than the one asked for is looked up: the difference pays for rounding.

    * One step by the library: each hockey-stick divergence is a difference of two probabilities,
      off by some ulp; that much mass at infinity repairs it (it dominates the true pair), and T
      steps add up.
    * Fourier transforms: an output of a transform of length n is off by ``log2(n)`` ulp of the
      mass, and a T-th power by T times that. This is the size of the rounding error, not a
      theorem about the library's transform; the errors that were seen were tens of times smaller.
    * Truncated draws: the binomial tails are off by a factor (1e-11 was seen), and with them the
      densities and losses.
    """
    truncated = any(phase.draw.name == "truncated-poisson" for phase in phases)
    phases = [replace(p, noise_multiplier=min(p.noise_multiplier, MOST_NOISE)) for p in phases]
    if truncated and not offers_truncation():
        return math.inf
    replaced = adjacency == "replace-one"
    grid, drift = interval(phases, size, replaced=replaced), _drift(phases)
    left = delta * math.exp(-drift) - _rounding(phases, size, replaced)
    if grid > _WIDEST or left <= 0.0:
        return math.inf
    added = (0, 1) if truncated and adjacency == "add-remove" else (0,)
    values = [_look_up(phases, grid, left, _Relation(replaced, n)) for n in added]
    return max(values) * (1.0 + 1e-12) + drift if min(values) >= 0.0 else math.inf


@dataclass(frozen=True)
class _Relation:
    """Attributes: whether a row is replaced, and rows that truncated draws have beyond N."""

    replaced: bool
    added: int


def _drift(phases: Sequence[Phase]) -> float:
    """By how much wrong binomial tails may move the logarithm of a density, over all steps."""
    return 1e-9 * sum(
        phase.steps / (1.0 - phase.sampling_rate)
        for phase in phases
        if phase.draw.name == "truncated-poisson"
    )


def _look_up(phases: Sequence[Phase], grid: float, delta: float, relation: _Relation) -> float:
    """Some releases refuse a fine grid on which rounding makes a divergence grow: widen it."""
    for factor in (1, 8, 64):
        with contextlib.suppress(ValueError), np.errstate(over="ignore"):
            composed = _compose(phases, factor * grid, relation)
            return float(composed.get_epsilon_for_delta(delta))
    return math.inf


def _rounding(phases: Sequence[Phase], size: Size, replaced: bool) -> float:
    per_step = 16.0 * (2.0 + math.log2(size.composed))
    steps = sum(phase.steps for phase in phases if phase.sampling_rate < 1.0)
    spread = sum(
        phase.steps * 4.0 * _loss_range(phase, replaced)
        for phase in phases
        if not _own(phase, replaced)
    )
    return _U * (per_step * (steps + len(phases)) + spread) + len(phases) * _TRUNCATION


def _own(phase: Phase, replaced: bool) -> bool:
    """Whether losses are discretised here."""
    return replaced and phase.sampling_rate < 1.0 and phase.draw.name != "truncated-poisson"


def interval(phases: Sequence[Phase], size: Size = FINE, *, replaced: bool = False) -> float:
    """Grid width, a power of two: never smaller for more steps or less noise.

    Grids of that kind are nested, and the coarser of two nested grids gives the larger epsilon,
    so epsilon stays monotone across a change of the grid.
    """
    one_step = sum(_loss_range(_as_step(phase), replaced) for phase in phases)
    points = size.composed_points(sum(phase.steps for phase in phases))
    composed = _composed_range(phases, one_step, replaced) / points
    needed = max(one_step / size.step, composed, 2.0**-40)
    return math.inf if needed > _WIDEST else 2.0 ** math.ceil(math.log2(needed))


def _as_step(phase: Phase) -> Phase:
    """T full-batch steps are one Gaussian step of less noise."""
    if phase.sampling_rate < 1.0:
        return phase
    return Phase(1.0, phase.noise_multiplier / math.sqrt(phase.steps), 1, phase.draw)


def _halved(phase: Phase, replaced: bool) -> Phase:
    """With the noise over the farthest change: by a replacement, or where one row moves another."""
    if not replaced and phase.draw.name != "truncated-poisson":
        return phase
    return replace(phase, noise_multiplier=phase.noise_multiplier / 2.0)


def _loss_range(phase: Phase, replaced: bool) -> float:
    """Width of the privacy losses of one step that are kept."""
    q = phase.sampling_rate
    if _own(phase, replaced):
        fixed = phase.draw.name == "fixed-size"
        return 2.0 * largest_loss(q, phase.noise_multiplier, fixed_size=fixed)
    z = _halved(phase, replaced).noise_multiplier
    most = (_TAIL + 0.5 / z) / z
    return log_mixture(q, most) - log_mixture(q, -most)


def _composed_range(phases: Sequence[Phase], one_step: float, replaced: bool) -> float:
    """Width that the library keeps after composition: a Chernoff bound of mass 5e-16 a side.

    It tries exponents between 1 and 20 over the width of one step.
    """
    if len(phases) == 1 and _as_step(phases[0]).steps == 1:
        return one_step
    alpha = orders(coarse=True)
    exponent = np.clip(alpha - 1.0, 1.0 / one_step, 20.0 / one_step)
    # The width decides how fine the grid is, not whether the result is a bound.
    poisson = [replace(_halved(phase, replaced), draw=POISSON) for phase in phases]
    bounds = divergences(poisson, coarse=True) * np.maximum(1.0, exponent / (alpha - 1.0))
    steps = sum(phase.steps for phase in phases)
    return min(one_step * steps, 2.0 * float(np.min(bounds + 36.0 / exponent)))


@functools.lru_cache(maxsize=16)
def _one_step(
    sampling_rate: float, noise_multiplier: float, draw: Draw, grid: float, relation: _Relation
) -> Any:
    """Loss distribution of one step, with arrays inside.

    The library keeps small distributions in dictionaries, whose size it raises to the power of
    the steps before it composes them: minutes for a million steps.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as library

    if _own(Phase(sampling_rate, noise_multiplier, 1, draw), relation.replaced):
        masses, infinite = replaced_losses(
            sampling_rate, noise_multiplier, grid, fixed_size=draw.name == "fixed-size"
        )
        first = -(len(masses) // 2)
        dense = pld_pmf.DensePLDPmf(grid, first, masses, infinite, pessimistic_estimate=True)
        return library.PrivacyLossDistribution(dense)
    options = {"value_discretization_interval": grid}
    if sampling_rate == 1.0:
        change = 2.0 if relation.replaced else 1.0
        found = library.from_gaussian_mechanism(noise_multiplier / change, **options)
    elif draw.name == "truncated-poisson":
        found = library.from_truncated_subsampled_gaussian_mechanism(
            dataset_size=draw.num_examples + relation.added,
            sampling_probability=sampling_rate,
            truncated_batch_size=draw.most_rows,
            noise_multiplier=noise_multiplier,
            **options,
            **_named(relation),
        )
    else:
        found = library.from_gaussian_mechanism(
            noise_multiplier, sampling_prob=sampling_rate, **options
        )
    remove = found._pmf_remove.to_dense_pmf()
    symmetric = found._pmf_add is found._pmf_remove or sampling_rate == 1.0
    add = None if symmetric else found._pmf_add.to_dense_pmf()
    return library.PrivacyLossDistribution(remove, add)


def _named(relation: _Relation) -> dict[str, Any]:
    """The option of the library; older releases know only the other relation, by default."""
    if not relation.replaced:
        return {}
    from dp_accounting.privacy_accountant import NeighboringRelation

    return {"neighboring_relation": NeighboringRelation.REPLACE_ONE}


def _compose(phases: Sequence[Phase], grid: float, relation: _Relation) -> Any:
    parts = [_phase(_as_step(phase), grid, relation) for phase in phases]
    return functools.reduce(lambda one, other: one.compose(other), parts)


def _phase(phase: Phase, grid: float, relation: _Relation) -> Any:
    step = _one_step(phase.sampling_rate, phase.noise_multiplier, phase.draw, grid, relation)
    return step if phase.steps == 1 else step.self_compose(phase.steps)
