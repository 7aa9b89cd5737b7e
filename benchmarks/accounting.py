"""Time of one epsilon, of a curve, and of the noise that a budget needs.

Every question is asked anew, at a sampling rate that differs in its ninth digit, since answers and
what they are made of are kept.

Run: python -m benchmarks.accounting
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from benchmarks import clock as clocks
from benchmarks.clock import Clock, alternated
from benchmarks.record import NO_TIME, markdown, measured_before, today, versions, write

#: Sampling rate, noise multiplier, steps: a small, a usual, and a long training.
SETTINGS = {
    "60 steps of 1/10": (0.1, 2.0, 60),
    "3,000 steps of 1/60": (1 / 60, 1.0, 3_000),
    "100,000 steps of 1/1000": (0.001, 0.8, 100_000),
    "1,000,000 steps of 1/10000": (0.0001, 0.6, 1_000_000),
}
ACCOUNTANTS = ("pld", "rdp")
EPSILON, DELTA = 3.0, 1e-5


def factors(first: int = 1) -> Iterator[float]:
    """Numbers near 1, none twice."""
    return (1.0 + 1e-9 * number for number in itertools.count(first))


def actions(
    setting: tuple[float, float, int], accountant: str, fresh: Iterator[float]
) -> dict[str, Callable[[], Any]]:
    """What is asked about a setting."""
    from lipdp.privacy import calibrate_noise_multiplier, epsilon, epsilon_curve

    rate, noise, steps = setting
    points = [max(1, steps * part // 10) for part in range(1, 11)]
    by = {"accountant": accountant}
    return {
        "epsilon": lambda: epsilon(rate * next(fresh), noise, steps, DELTA, **by),
        "curve of 10": lambda: epsilon_curve(rate * next(fresh), noise, points, DELTA, **by),
        "calibration": lambda: calibrate_noise_multiplier(
            EPSILON, DELTA, rate * next(fresh), steps, **by
        ),
    }


def table(cells: dict[str, dict[str, Any]]) -> str:
    """Seconds as Markdown."""
    asked = list(dict.fromkeys(name for cell in cells.values() for name in cell))
    rows = [[setting, *(cell.get(name) for name in asked)] for setting, cell in cells.items()]
    return markdown(["seconds", *asked], rows)


@click.command()
@click.option("--turns", default=3, show_default=True)
@clocks.options
def main(turns: int, results: Path, seconds: float, quick: bool) -> None:
    """Writes accounting.json and accounting.md."""
    clock, fresh = Clock(seconds), factors()
    start = time.perf_counter()
    import dp_accounting  # noqa: F401

    loading = time.perf_counter() - start
    packages = versions()
    cells, measured = measured_before(results / "accounting.json", packages)
    for name, setting in list(SETTINGS.items())[: 1 if quick else None]:
        for accountant in ACCOUNTANTS:
            key = f"{name}, {accountant}"
            cells.setdefault(key, NO_TIME)
            if clock.left > 0.0:
                measured[key] = today()
                asked = actions(setting, accountant, fresh)
                cells[key] = alternated(asked, 1 if quick else turns, warm_up=0 if quick else 1)
            click.echo(f"{key}: {cells[key]}")
            write(
                "accounting",
                cells,
                table(cells),
                command=f"python -m benchmarks.accounting --turns {turns}",
                packages=packages,
                folder=results,
                measured=measured,
                unit="seconds",
                loading_the_library=loading,
            )


if __name__ == "__main__":
    main()
