"""Workers that take turns on one machine, so that what slows it slows all of them.

A worker that is too slow, takes too much memory or dies takes no further turn: the reason stands in
the place of its numbers, and the others go on.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.clock import Clock
from benchmarks.worker import ROOT, Limits, Skipped, Worker

__all__ = ["ROOT", "Contender", "Limits", "race"]

Cost = Mapping[str, float]
#: A turn of more seconds than this is not taken again: its noise is small beside it.
_LONG_TURN = 20.0
#: Turns that count however little time is left: the median of three forgets one in which a worker
#: compiled a step for another shape.
_LEAST_TURNS = 3


@dataclass(frozen=True)
class Contender:
    """One program in a race.

    Attributes:
        module: The worker, as ``python -m`` takes it.
        cell: What it is told, as JSON.
        python: Interpreter of its environment.
        variables: Environment variables of its own.
    """

    module: str
    cell: Mapping[str, Any]
    python: str = sys.executable
    variables: Mapping[str, str] = field(default_factory=dict)


class _Lane:
    """A contender with what it cost so far, or the reason why it takes no turns."""

    def __init__(self, contender: Contender, limits: Limits) -> None:
        self.costs: list[Cost] = []
        self.skipped = ""
        self.worker: Worker | None = None
        command = (contender.python, "-m", contender.module)
        try:
            self.worker = Worker(command, contender.cell, contender.variables, limits)
        except OSError as reason:
            self._skip(str(reason))

    def ready(self) -> None:
        """Waits until it can take a turn."""
        if self.worker is not None:
            try:
                self.worker.ready()
            except Skipped as reason:
                self._skip(str(reason))

    def turn(self, counted: bool) -> None:
        """Takes a turn, unless it was skipped before or its turns are long."""
        long = any(one["turn"] > _LONG_TURN for one in self.costs)
        if self.worker is None or self.skipped or long:
            return
        try:
            cost = self.worker.turn()
        except Skipped as reason:
            self._skip(str(reason))
        else:
            self.costs += [cost] if counted else []

    def end(self) -> None:
        if self.worker is not None:
            self.worker.end()

    def _skip(self, reason: str) -> None:
        self.skipped = reason
        if self.worker is not None:
            self.worker.kill()


def race(
    contenders: Mapping[str, Contender],
    base: str,
    turns: int,
    warm_up: int = 1,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> dict[str, dict[str, Any]]:
    """Medians over the turns of each contender, and of its ratios to the base of the same turn.

    Args:
        contenders: By name.
        base: Name of the one that the others are compared to.
        turns: Turns that count.
        warm_up: Turns before them, in which a worker compiles.
        limits: What a worker may take.
        clock: After the first three turns that count, none begins that is likely to pass its time.

    Returns:
        For each name ``wall_ms`` and ``cpu_ms`` (of a step), ``wall_ratio`` and ``cpu_ratio``
        (absent if the base was skipped), ``peak_mb`` (of the process), ``growth_mb`` (of its peak
        since it stood ready for the first step) and ``turns``; or ``skipped``, a reason.
    """
    lanes: dict[str, _Lane] = {}
    clock = clock or Clock()
    try:
        for name, contender in contenders.items():
            lanes[name] = _Lane(contender, limits or Limits())
        # They start side by side, and each is ready before the first turn of any.
        for lane in lanes.values():
            lane.ready()
        left = math.inf
        for turn in range(warm_up + turns):
            # The last turn took what is lost of what was left before it.
            left, before = clock.left, left
            if turn >= warm_up + min(_LEAST_TURNS, turns) and before - left > left:
                break
            for lane in lanes.values():
                lane.turn(counted=turn >= warm_up)
    finally:
        for lane in lanes.values():
            lane.end()
    return {name: _summary(lane, lanes[base]) for name, lane in lanes.items()}


def _summary(lane: _Lane, base: _Lane) -> dict[str, Any]:
    if lane.skipped or lane.worker is None:
        return {"skipped": lane.skipped}
    found, peak = lane.costs, lane.costs[-1]["peak"]
    times = {
        f"{kind}_ms": 1e3 * statistics.median(one[kind] for one in found)
        for kind in ("wall", "cpu")
    }
    ratios = {} if base.skipped else _ratios(found, base.costs)
    memory = {"peak_mb": peak / 2**20, "growth_mb": (peak - lane.worker.idle_peak) / 2**20}
    return {**ratios, **times, **memory, "turns": len(found)}


def _ratios(found: Sequence[Cost], base: Sequence[Cost]) -> dict[str, float]:
    """Of turns that both took."""
    return {
        f"{kind}_ratio": statistics.median(
            one[kind] / other[kind] for one, other in zip(found, base, strict=False)
        )
        for kind in ("wall", "cpu")
    }
