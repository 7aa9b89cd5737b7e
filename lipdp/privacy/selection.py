"""What choosing among several runs on the same rows costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy.accountants import LEAST_NOISE, Accounted, account, check_draws
from lipdp.privacy.ledger import PrivacyLedger
from lipdp.privacy.phase import Phase, check_adjacency, check_delta, is_number, merge_phases
from lipdp.privacy.rdp import divergences, epsilon_of_divergences, orders

#: What one run did: its ledger, or its phases.
Run = PrivacyLedger | Sequence[Phase]

_METHOD = "Renyi divergences, the best of a random number of runs"
#: Below, the theorem's logarithms lose their digits; a larger divergence is a bound too.
_LEAST_DIVERGENCE = 1e-12


def composed(
    runs: Iterable[Run],
    delta: float,
    *,
    accountant: str = "pld",
    adjacency: str | None = None,
) -> Accounted:
    """Epsilon of all runs on the same rows together, whatever is published of them.

    Guarantees:

    * It is the cost of the composition: the settings of a run may depend on earlier runs, as when
      TPE or Hyperband choose them, and all runs may be published, the best one alone too.
    * Ledgers are put together by their sessions, as ``merge`` does: a run and its copy count once,
      and of two runs that went on from one the part that they share counts once
      (``test_sessions_that_ledgers_share_count_once``). Sequences of phases add up.
    * What overflowing batches took from delta is added up over the accesses.
    * A run that was stopped counts with the steps that its ledger holds.

    Args:
        runs: Ledgers, or sequences of phases.
        delta: Of the whole guarantee, overflow included.
        accountant: ``"pld"`` or ``"rdp"``.
        adjacency: Relation of the phases; by default that of the ledgers, or ``"add-remove"``.

    Raises:
        InvalidData: If the runs count under different adjacencies.
        InvalidValue: If delta is outside (0, 1), or a draw is not accounted under the adjacency.
        UnknownName: If accountant or adjacency is unknown.
    """
    check_delta(delta)
    found = list(runs)
    relation = _adjacency(found, adjacency)
    whole = merged((run for run in found if isinstance(run, PrivacyLedger)), relation)
    if whole.unknown_history:
        return Accounted(math.inf, "unknown history")
    left = delta - whole.overflow_delta
    if left <= 0.0:
        return Accounted(math.inf, "delta used up by overflow")
    others = [phase for run in found if not isinstance(run, PrivacyLedger) for phase in run]
    return account([*whole.phases, *others], left, accountant=accountant, adjacency=relation)


def merged(ledgers: Iterable[PrivacyLedger], adjacency: str) -> PrivacyLedger:
    """One ledger of everything that some ledgers know; they stay as they are.

    Args:
        ledgers: Of accesses to the same rows.
        adjacency: Relation that they count under.

    Raises:
        InvalidData: If one counts under another adjacency.
    """
    whole = PrivacyLedger(adjacency)
    for ledger in ledgers:
        whole.merge(ledger)
    return whole


def repeat_and_select(
    settings: Iterable[Run],
    delta: float,
    *,
    mean: float,
    shape: float,
    adjacency: str | None = None,
) -> Accounted:
    """Epsilon of publishing only the best of a random number of independent runs.

    Papernot & Steinke 2022, Theorem 2 (truncated negative binomial number of runs) and Theorem 6
    (Poisson); the idea is that of Liu & Talwar 2019. Computed by dp-accounting from the Renyi
    divergences of one run.

    Guarantees, provided that

    * the number of runs is drawn from exactly this distribution, from randomness that stays
      secret, by itself: no data, no result and nobody's wish decides when to stop, and neither
      the number nor any other run is published;
    * each run draws its setting from one fixed distribution over ``settings``, written down
      before, with randomness of its own: no run looks at the results of others (TPE and Hyperband
      do, which costs ``composed``);
    * the best run is found from what the runs may publish: scores are computed on rows outside
      the guarantee, or are paid for in each run's phases;

    then

    * the best run alone is (epsilon, delta)-differentially private;
    * epsilon is never below that of one run by the same Renyi divergences;
    * overflow of batches is paid at ``(1 + e^epsilon)`` of its probability in the mean number of
      runs.

    Args:
        settings: What one run does under each of the settings that it may draw; their order and
            probabilities do not matter, the costliest one counts at each Renyi order.
        delta: Of the whole guarantee, overflow included.
        mean: Expected number of runs, at least 1.
        shape: Of the distribution: ``math.inf`` Poisson, 1 geometric, 0 logarithmic, otherwise
            truncated negative binomial; of these, smaller ones vary more and cost less.
        adjacency: Relation of the phases; by default that of the ledgers, or ``"add-remove"``.

    Raises:
        InvalidData: If the settings count under different adjacencies.
        InvalidValue: If there are no settings, or a number is outside its domain.
        UnknownName: If the adjacency is unknown.
    """
    check_delta(delta)
    check_number_of_runs(mean, shape)
    found = list(settings)
    if not found:
        raise InvalidValue("Choosing among runs needs at least one setting", received=found)
    relation = _adjacency(found, adjacency)
    if any(isinstance(run, PrivacyLedger) and run.unknown_history for run in found):
        return Accounted(math.inf, "unknown history")
    one_run = np.max([_divergences(_phases(run), relation) for run in found], axis=0)
    if not one_run.any():
        return Accounted(0.0, "no steps")
    best = _best_of_many(one_run, mean, shape)
    price = mean * max(map(_overflow, found))
    return Accounted(_with_overflow(best, delta, price), _METHOD)


def draw_number_of_runs(mean: float, shape: float, seed: int | None = None) -> int:
    """A number of runs from the distribution that ``repeat_and_select`` accounts.

    Args:
        mean: Expected number of runs, at least 1.
        shape: As there. A Poisson number may be 0: then nothing is published.
        seed: Makes the number reproducible, and the selection not private; by default 128 bits of
            the operating system.

    Raises:
        InvalidValue: If a number is outside its domain.
    """
    check_number_of_runs(mean, shape)
    if 0.0 < shape < 1e-3:
        raise InvalidValue("So small a shape takes too long to draw", received=shape, fix="Use 0")
    generator = np.random.default_rng(seed)
    if math.isinf(shape):
        return int(generator.poisson(mean))
    stop = _halting_probability(mean, shape)
    if stop >= 1.0:
        return 1
    if shape == 0.0:
        return int(generator.logseries(1.0 - stop))
    while True:
        number = int(generator.negative_binomial(shape, stop))
        if number > 0:
            return number


def _halting_probability(mean: float, shape: float) -> float:
    """The parameter gamma of the distribution with that mean; a little above, which costs less."""
    from dp_accounting.rdp import rdp_privacy_accountant as library

    found = library._gamma_truncated_negative_binomial(float(shape), float(mean))
    return min(1.0, float(found) * (1.0 + 1e-8))


def check_number_of_runs(mean: float, shape: float) -> None:
    """Refuses a mean below 1 or infinite, and a negative shape."""
    if not is_number(mean) or not 1.0 <= mean < math.inf:
        raise InvalidValue("The mean number of runs must be finite and at least 1", received=mean)
    if not is_number(shape) or shape < 0.0:
        raise InvalidValue(
            "The shape of the distribution of runs must be at least 0",
            received=shape,
            fix="Use math.inf for Poisson, 1 for geometric, 0 for logarithmic",
        )


def _adjacency(runs: Sequence[Run], wanted: str | None) -> str:
    found = {run.adjacency for run in runs if isinstance(run, PrivacyLedger)}
    found |= {check_adjacency(wanted)} if wanted is not None else set()
    if len(found) > 1:
        raise InvalidData(
            "The runs count under different adjacencies",
            received=sorted(found),
            fix="Put together the runs of one adjacency",
        )
    return found.pop() if found else "add-remove"


def _phases(run: Run) -> Sequence[Phase]:
    return run.phases if isinstance(run, PrivacyLedger) else merge_phases(run)


def _overflow(run: Run) -> float:
    return run.overflow_delta if isinstance(run, PrivacyLedger) else 0.0


def _divergences(phases: Sequence[Phase], adjacency: str) -> np.ndarray:
    check_draws(phases, adjacency)
    if any(phase.noise_multiplier < LEAST_NOISE for phase in phases):
        return np.full_like(orders(), np.inf)
    return divergences(phases, adjacency)


def _best_of_many(one_run: np.ndarray, mean: float, shape: float) -> np.ndarray:
    """What the library's event of this kind computes, from divergences with their rounding."""
    from dp_accounting.rdp import rdp_privacy_accountant as library

    safe, kept = np.maximum(one_run, _LEAST_DIVERGENCE), np.isfinite(one_run)
    best = np.full_like(one_run, np.inf)
    if kept.any():
        select = library._compute_rdp_repeat_and_select
        best[kept] = select(orders()[kept], safe[kept], float(mean), float(shape))
    return np.maximum(best * (1.0 + 1e-9), safe)


def _with_overflow(best: np.ndarray, delta: float, price: float) -> float:
    """Least epsilon found whose own delta and ``(1 + e^epsilon)`` of the price fit into delta."""
    if price == 0.0:
        return epsilon_of_divergences(best, delta)
    least = math.inf
    for halvings in range(1, 50):
        own = delta * (1.0 - 2.0**-halvings)
        epsilon = epsilon_of_divergences(best, own)
        if epsilon < 500.0 and own + price * (1.0 + math.exp(epsilon)) <= delta:
            least = min(least, epsilon)
    return least
