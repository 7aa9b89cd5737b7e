"""What the steps of a training run cost: epsilon at a given delta.

Guarantees:

* An epsilon is an upper bound: grids are pessimistic, rounding is added.
* No steps cost exactly 0; a step without noise costs infinity; never negative, never NaN.
* More steps, a higher sampling rate or a smaller delta cost no less, and nor does less noise,
  but for the multipliers 4 and 30: above them fewer Renyi orders are tried, which was measured
  to raise an epsilon by up to 1 % ("rdp") or 0.05 % ("pld"). It stays an upper bound.
* Each accountant also tries the cheap sound bounds and returns the least, with its name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from lipdp.errors import InvalidValue, UnknownName
from lipdp.privacy.gaussian import gaussian_epsilon, total_mu
from lipdp.privacy.phase import (
    ADJACENCIES,
    POISSON,
    Phase,
    check_adjacency,
    check_delta,
    merge_phases,
)
from lipdp.privacy.pld import COARSE, FINE, pld_epsilon
from lipdp.privacy.rdp import rdp_epsilon

Phases = tuple[Phase, ...]

#: With less noise epsilon is above 1e4 and the libraries' arithmetic overflows.
LEAST_NOISE = 2e-3


@dataclass(frozen=True)
class Accounted:
    """An epsilon and the computation that gave it.

    Attributes:
        epsilon: Upper bound, at least 0, maybe infinite.
        method: In words, such as ``"privacy loss distribution"``.
    """

    epsilon: float
    method: str


@dataclass(frozen=True)
class Accountant:
    """One way to compose steps.

    Attributes:
        name: As in a budget, such as ``"pld"``.
        title: In words.
        bound: ``(phases, delta, adjacency, coarse) -> epsilon`` for merged phases with noise,
            where the noise multiplier is over the bound of one row.
    """

    name: str
    title: str
    bound: Callable[[Phases, float, str, bool], float]


def _pld_bound(phases: Phases, delta: float, adjacency: str, coarse: bool) -> float:
    return pld_epsilon(phases, delta, adjacency, COARSE if coarse else FINE)


def _rdp_bound(phases: Phases, delta: float, adjacency: str, coarse: bool) -> float:
    return rdp_epsilon(phases, delta, adjacency, coarse=coarse)


_RDP = Accountant("rdp", "Renyi divergences", _rdp_bound)
_PLD = Accountant("pld", "privacy loss distribution", _pld_bound)

ACCOUNTANTS: Mapping[str, Accountant] = MappingProxyType({"pld": _PLD, "rdp": _RDP})


@functools.lru_cache(maxsize=512)
def _account(
    accountant: Accountant, phases: Phases, delta: float, adjacency: str, coarse: bool
) -> Accounted:
    if not phases:
        return Accounted(0.0, "no steps")
    if any(phase.noise_multiplier == 0.0 for phase in phases):
        return Accounted(math.inf, "no noise")
    full = gaussian_epsilon(total_mu(phases, adjacency), delta)
    if full == 0.0 or all(phase.sampling_rate == 1.0 for phase in phases):
        return Accounted(full, "closed form of the Gaussian mechanism")
    found = [Accounted(full, "closed form of the Gaussian mechanism, without amplification")]
    if min(phase.noise_multiplier for phase in phases) >= LEAST_NOISE:
        found += [
            Accounted(one.bound(phases, delta, adjacency, coarse), one.title)
            for one in {accountant, _RDP}
        ]
    return min(found, key=lambda one: one.epsilon)


def check_draws(phases: Sequence[Phase], adjacency: str) -> None:
    """Refuses draws that are accounted under another relation only.

    Raises:
        InvalidValue: If there are some.
    """
    fixed = [phase for phase in phases if phase.draw.name == "fixed-size"]
    if fixed and adjacency != "replace-one":
        raise InvalidValue(
            "Batches of a fixed size drawn without replacement are accounted under replace-one",
            received=adjacency,
            fix='Use adjacency="replace-one", or Poisson sampling',
        )


def account(
    phases: Iterable[Phase],
    delta: float,
    *,
    accountant: str = "pld",
    adjacency: str = "add-remove",
    coarse: bool = False,
) -> Accounted:
    """Epsilon of a composition, with the name of the computation that gave it.

    Args:
        phases: What was run, in any order.
        delta: Target delta, in (0, 1).
        accountant: A name in ``ACCOUNTANTS``.
        adjacency: A name in ``ADJACENCIES``.
        coarse: Faster and looser, still an upper bound.

    Raises:
        InvalidValue: If delta is outside (0, 1), or a draw is not accounted under the adjacency.
        UnknownName: If accountant or adjacency is unknown.
    """
    check_delta(delta)
    chosen = find_accountant(accountant)
    merged = merge_phases(phases)
    check_draws(merged, check_adjacency(adjacency))
    return _account(chosen, merged, float(delta), adjacency, coarse)


def epsilon_of(
    phases: Iterable[Phase],
    delta: float,
    *,
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> float:
    """Epsilon of a composition of phases; see ``account``."""
    return account(phases, delta, accountant=accountant, adjacency=adjacency).epsilon


def truncation_price(
    phases: Iterable[Phase],
    delta: float,
    *,
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> float:
    """How many times what the same Poisson draws cost, if none of them were truncated.

    A row that is drawn where the draw is too large takes another one's place, and the sum moves by
    up to twice the bound of a row. That is rare, and small against much noise; with little noise
    it decides epsilon.

    Args:
        phases: As for ``account``; 1 where no draw is truncated.
        delta: Target delta, in (0, 1).
        accountant: A name in ``ACCOUNTANTS``.
        adjacency: A name in ``ADJACENCIES``.
    """
    asked = list(phases)
    plain = [
        replace(phase, draw=POISSON) if phase.draw.name == "truncated-poisson" else phase
        for phase in asked
    ]
    how = {"accountant": accountant, "adjacency": adjacency}
    cost, without = epsilon_of(asked, delta, **how), epsilon_of(plain, delta, **how)
    if cost == without:
        return 1.0
    return cost / without if without > 0.0 else math.inf


def epsilon(
    sampling_rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    *,
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> float:
    """Epsilon of equal steps of the Poisson-sampled Gaussian mechanism.

    Args:
        sampling_rate: Probability q that one row enters a batch, ``0 < q <= 1``.
        noise_multiplier: Standard deviation over sensitivity, at least 0.
        steps: Number of steps.
        delta: Target delta, in (0, 1).
        accountant: ``"pld"`` or ``"rdp"``.
        adjacency: ``"add-remove"``, ``"zero-out"`` or ``"replace-one"``.

    Raises:
        InvalidValue: If a number is outside its domain.
        UnknownName: If accountant or adjacency is unknown.
    """
    phase = Phase(sampling_rate, noise_multiplier, steps)
    return epsilon_of([phase], delta, accountant=accountant, adjacency=adjacency)


def epsilon_curve(
    sampling_rate: float,
    noise_multiplier: float,
    steps: Sequence[int],
    delta: float,
    *,
    accountant: str = "pld",
    adjacency: str = "add-remove",
) -> list[float]:
    """Epsilon after each of some numbers of steps; see ``epsilon``."""
    return [
        epsilon(
            sampling_rate,
            noise_multiplier,
            count,
            delta,
            accountant=accountant,
            adjacency=adjacency,
        )
        for count in steps
    ]


def find_accountant(name: str) -> Accountant:
    """The accountant of that name.

    Raises:
        UnknownName: If there is none.
    """
    if name not in ACCOUNTANTS:
        raise UnknownName(
            "There is no accountant of this name",
            received=name,
            fix=f"Use one of: {', '.join(sorted(ACCOUNTANTS))}",
        )
    return ACCOUNTANTS[name]


__all__ = [
    "ACCOUNTANTS",
    "ADJACENCIES",
    "Accountant",
    "Accounted",
    "account",
    "epsilon",
    "epsilon_curve",
    "epsilon_of",
    "truncation_price",
]
