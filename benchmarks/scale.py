"""How cost grows with depth, width, classes, rows and epochs.

The growth of a row is the exponent e of cost ~ value^e between its least and greatest value, and
between its last two. Steps are raced against the plain network of the same size, whose own growth
stands beside: the weights of a dense layer grow with the square of its width.

Run: python -m benchmarks.scale
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import clock as clocks
from benchmarks.accounting import factors
from benchmarks.cells import race_cell
from benchmarks.clock import Clock, alternated
from benchmarks.race import Contender
from benchmarks.record import markdown, measured_before, today, versions, write

WORKER = "benchmarks.workers.scale_steps"
SIZES = {"depth": 2, "width": 256, "classes": 10}
BATCH, STEPS = 256, 20
#: What one thing is changed to while the others keep their usual size.
STEP_VALUES = {
    "classes": (10, 100, 1_000, 10_000),
    "depth": (2, 8, 32),
    "width": (256, 1024, 2048),
}
DEPTHS = (2, 8, 32, 64)
ROWS = (10**4, 10**5, 10**6, 10**7)
EPOCHS = (1, 10, 100, 1_000, 10_000)


def growth(values: Sequence[float], costs: Sequence[float]) -> float:
    """Exponent between the first and the last."""
    return math.log(costs[-1] / costs[0]) / math.log(values[-1] / values[0])


def contenders(changed: str, value: int, steps: int) -> dict[str, Contender]:
    """Plain, Lipschitz and private network of a size."""
    told = {**SIZES, changed: value, "batch": BATCH, "steps": steps}
    kinds = ("plain", "lipschitz", "private")
    return {kind: Contender(WORKER, {**told, "kind": kind}) for kind in kinds}


def step_costs(changed: str, values: Sequence[int], steps: int, turns: int) -> Iterator[Any]:
    """Value after value: milliseconds of the three steps, or why not."""
    for value in values:
        yield race_cell(contenders(changed, value, steps), turns)


def bounds_action(depth: int) -> Callable[[], Any]:
    """Proving the bounds of a network."""
    from benchmarks.workers.scale_steps import make_model
    from lipdp.bounds import gradient_bounds

    model = make_model({**SIZES, "depth": depth, "kind": "private"})
    return lambda: gradient_bounds(model, model.loss)


def draw_action(rows: int) -> Callable[[], Any]:
    """Drawing a batch of an expected 1,024 rows."""
    from lipdp.privacy import PoissonSampler

    return PoissonSampler(rows, min(1024, rows)).draw


def calibration_action(epochs: int) -> Callable[[], Any]:
    """The noise for so many epochs of 60 steps; asked anew each time."""
    from lipdp.privacy import calibrate_noise_multiplier

    fresh = factors(100 * epochs)  # other rates at each number of epochs
    return lambda: calibrate_noise_multiplier(3.0, 1e-5, next(fresh) / 60, 60 * epochs)


#: What is measured in this process: the values and the action at a value.
HERE: Mapping[str, tuple[tuple[int, ...], Callable[[int], Callable[[], Any]]]] = {
    "bounds by depth": (DEPTHS, bounds_action),
    "draw by rows": (ROWS, draw_action),
    "calibration by epochs": (EPOCHS, calibration_action),
}


def measured_here(name: str, turns: int, most: int | None) -> dict[str, Any]:
    """Milliseconds at each value."""
    values, make = HERE[name]
    actions = {str(value): make(value) for value in values[:most]}
    return cell(values[:most], [1e3 * s for s in alternated(actions, turns).values()])


def cell(values: Sequence[int], costs: Sequence[float]) -> dict[str, Any]:
    """Values, milliseconds and exponents."""
    found = {"values": list(values), "ms": list(costs)}
    if len(values) < 2:
        return found
    ends = growth(values, costs), growth(values[-2:], costs[-2:])
    return found | {"growth": ends[0], "growth_at_the_end": ends[1]}


def step_cells(changed: str, values: Sequence[int], raced: Sequence[Any]) -> dict[str, Any]:
    """One cell a kind of step; values whose race gave none are left out."""
    found = {}
    for kind in ("plain", "lipschitz", "private"):
        pairs = [
            (value, one[kind]["wall_ms"])
            for value, one in zip(values, raced, strict=True)
            if "wall_ms" in one.get(kind, {})
        ]
        if pairs:
            found[f"{kind} step by {changed}"] = cell(*map(list, zip(*pairs, strict=True)))
    return found


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown."""
    rows = [
        [
            name,
            ", ".join(f"{value:,}" for value in one["values"]),
            ", ".join(f"{cost:.3g}" for cost in one["ms"]),
            one.get("growth"),
            one.get("growth_at_the_end"),
        ]
        for name, one in cells.items()
    ]
    return markdown(["cost", "at", "ms", "growth", "at the end"], rows)


@click.command()
@click.option("--turns", default=3, show_default=True)
@clocks.options
def main(turns: int, results: Path, seconds: float, quick: bool) -> None:
    """Writes scale.json and scale.md."""
    clock = Clock(seconds)
    packages = versions()
    cells, measured = measured_before(results / "scale.json", packages)
    turns, most = (1, 2) if quick else (turns, None)

    def keep(found: dict[str, Any]) -> None:
        cells.update(found)
        measured.update(dict.fromkeys(found, today()))
        click.echo(table(found))
        told = f"python -m benchmarks.scale --turns {turns}"
        write(
            "scale",
            cells,
            table(cells),
            command=told,
            packages=packages,
            folder=results,
            measured=measured,
        )

    for name in HERE:
        if clock.left > 0.0:
            keep({name: measured_here(name, turns, most)})
    for changed, values in list(STEP_VALUES.items())[: 1 if quick else None]:
        if clock.left > 0.0:
            raced = list(step_costs(changed, values[:most], 2 if quick else STEPS, turns))
            keep(step_cells(changed, values[:most], raced))


if __name__ == "__main__":
    main()
