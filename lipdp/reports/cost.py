"""What several runs on the same rows cost together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lipdp.privacy import PrivacyLedger, composed
from lipdp.reports.loading import LoadedRun
from lipdp.reports.sections import Section

#: Beyond, numerical convolutions of so many different steps take minutes.
_MOST_PHASES = 12
#: Beyond, only the cost of everything is computed.
_MOST_LEVELS = 8


@dataclass(frozen=True)
class Together:
    """The guarantee of all runs, whatever is published of them.

    Attributes:
        epsilon: At ``delta``.
        delta: Larger than that of one run where the ledger of a run is missing.
        method: The computation.
        runs: How many.
        without_ledger: How many of them are added up by their own epsilon and delta.
    """

    epsilon: float
    delta: float
    method: str
    runs: int
    without_ledger: int


@dataclass(frozen=True)
class Level:
    """What all runs at one epsilon cost together.

    Attributes:
        epsilon: Of one run alone.
        together: Of all of them.
    """

    epsilon: float
    together: Together


@dataclass(frozen=True)
class Cost:
    """What the private runs of a section cost.

    Attributes:
        alone: The largest epsilon of one run.
        together: Of all private runs.
        levels: Of the runs at each epsilon; empty if there are many.
    """

    alone: float
    together: Together
    levels: tuple[Level, ...]


def section_cost(section: Section) -> Cost | None:
    """What the private runs of a section cost; None if there are none."""
    if section.delta is None:
        return None
    by_level: dict[float, list[LoadedRun]] = {}
    for cell in section.cells:
        by_level.setdefault(cell.epsilon, []).extend(cell.runs)
    delta, few = section.delta, len(by_level) <= _MOST_LEVELS
    levels = [Level(epsilon, together(runs, delta)) for epsilon, runs in by_level.items() if few]
    everything = [run for runs in by_level.values() for run in runs]
    return Cost(max(by_level), together(everything, delta), tuple(levels))


def together(runs: Sequence[LoadedRun], delta: float) -> Together:
    """Composes runs by their ledgers at delta; early results without one by simple addition.

    ``(e1, d1)`` and ``(e2, d2)`` compose to ``(e1 + e2, d1 + d2)`` (Dwork & Roth 2014, theorem
    3.16), adaptively too.

    Args:
        runs: At least one, all of one adjacency, on the same rows.
        delta: Of the runs that have a ledger.
    """
    spent = [run.result.spent for run in runs]
    ledgers = [PrivacyLedger.from_json(one.ledger) for one in spent if one.ledger]
    others = [one for one in spent if not one.ledger]
    found = composed(ledgers, delta, accountant=_accountant(ledgers)) if ledgers else None
    method = found.method if found else ""
    if others:
        method = f"{method}; simple addition" if method else "simple addition"
    return Together(
        epsilon=math.fsum([found.epsilon if found else 0.0, *(one.epsilon for one in others)]),
        delta=math.fsum([delta if found else 0.0, *(one.delta for one in others)]),
        method=method,
        runs=len(runs),
        without_ledger=len(others),
    )


def _accountant(ledgers: Sequence[PrivacyLedger]) -> str:
    phases = {(p.sampling_rate, p.noise_multiplier, p.draw) for one in ledgers for p in one.phases}
    return "pld" if len(phases) <= _MOST_PHASES else "rdp"
