"""Time that a part may take, and the options that all parts share."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from benchmarks.record import RESULTS


@dataclass(frozen=True)
class Clock:
    """Says when no further cell may begin.

    Attributes:
        seconds: Time from the start.
        start: On ``time.monotonic``.
    """

    seconds: float = math.inf
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds, negative afterwards."""
        return self.seconds - self.passed

    def has_room(self, longest: float) -> bool:
        """Whether what may take as long as the longest so far passes the end by half at most."""
        return self.left > longest / 2.0

    @property
    def passed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--results``, ``--seconds`` and ``--quick`` to a part."""
    folder = click.Path(file_okay=False, path_type=Path)
    for option in (
        click.option("--quick", is_flag=True, help="The least that runs all of the code."),
        click.option("--seconds", default=math.inf, help="Begin no cell after this time."),
        click.option("--results", type=folder, default=RESULTS, help="Folder of what is written."),
    ):
        command = option(command)
    return command


def alternated(
    actions: Mapping[str, Callable[[], Any]], turns: int, warm_up: int = 1
) -> dict[str, float]:
    """Median seconds of each action, all of them in turn so that all see the same machine."""
    found: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(warm_up + turns):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            if turn >= warm_up:
                found[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in found.items()}
