"""One race after another, written down as they end; what all timings of steps share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.clock import Clock
from benchmarks.race import Contender, race
from benchmarks.record import NO_TIME, RESULTS, markdown, measured_before, today, write

Cell = Mapping[str, Any]

#: Rows of a turn: about a second of a plain step on two cores.
ROWS = {"mlp": 40_000, "cnn": 4_000}
#: Batch sizes of each network; the first are run first.
BATCHES = {"mlp": (1024, 8192, 256, 4096, 64), "cnn": (1024, 256, 4096, 64, 8192)}


def steps_of(net: str, batch: int) -> int:
    """Steps of a turn, so that turns take about as long at each batch size."""
    return max(2, min(100, ROWS[net] // batch))


def run_cells(
    name: str,
    make: Callable[[int], Mapping[str, Contender]],
    batches: Sequence[int],
    turns: int,
    *,
    command: str,
    packages: Mapping[str, str | None],
    clock: Clock | None = None,
    folder: Path = RESULTS,
) -> Path:
    """Races the contenders of each batch size against "plain".

    Args:
        name: Name of the files that are written.
        make: Contenders at a batch size, one of them "plain".
        batches: Batch sizes, in order of importance.
        turns: Most turns of each contender.
        command: What is written down as the command.
        packages: Versions.
        clock: Each batch size has an equal part of what is left, in which it takes as many turns
            as fit, three at least; those that it leaves no time for are marked, unless the
            folder has them from an earlier run on such a machine with these versions. None begins
            that is likely to pass its time by half of what a cell has taken.
        folder: Where results are written, with the day of each cell.
    """
    clock = clock or Clock()
    path = folder / f"{name}.json"
    cells, measured = measured_before(path, packages)
    for batch in batches:
        cells.setdefault(str(batch), NO_TIME)
    cells = {batch: cells[batch] for batch in sorted(cells, key=int)}
    longest = 0.0
    for number, batch in enumerate(batches):
        if clock.has_room(longest):
            begin, share = clock.passed, Clock(clock.left / (len(batches) - number))
            cells[str(batch)] = race_cell(make(batch), turns, share)
            measured[str(batch)] = today()
            longest = max(longest, clock.passed - begin)
            click.echo(f"{name}, batch {batch}: " + json.dumps(_short(cells[str(batch)])))
        write(
            name,
            cells,
            table(cells),
            command=command,
            packages=packages,
            folder=folder,
            measured=measured,
        )
    return path


def race_cell(contenders: Mapping[str, Contender], turns: int, clock: Clock | None = None) -> Cell:
    """A race, or the reason why there was none."""
    try:
        return race(contenders, "plain", turns, clock=clock)
    except (RuntimeError, OSError) as error:
        return {"skipped": " ".join(str(error).split())[:200]}


def _short(cell: Cell) -> dict[str, str]:
    return {name: ratio(cell, name) for name in cell if name != "skipped"} or {
        "skipped": reason(cell)
    }


def reason(cell: Cell) -> str:
    """Why there is no number; empty if there is one."""
    return str(cell.get("skipped", ""))


def ratio(cell: Cell, name: str, kind: str = "wall_ratio") -> str:
    """A number of one contender, or why there is none."""
    found = cell if "skipped" in cell else cell.get(name, {"skipped": "-"})
    return reason(found) or (f"{found[kind]:.2f}" if kind in found else "-")


def names(cells: Mapping[str, Cell]) -> list[str]:
    """All contenders, in their order."""
    return list(
        dict.fromkeys(name for cell in cells.values() for name in cell if name != "skipped")
    )


def table(cells: Mapping[str, Cell]) -> str:
    """Markdown: turns, milliseconds and memory of a plain step, and ratios of times to it."""
    contenders = [name for name in names(cells) if name != "plain"]
    heads = ["batch", "turns", "plain: ms", "MB", *contenders]
    rows = [
        [
            batch,
            reason(cell) or cell.get("plain", {}).get("turns", "-"),
            ratio(cell, "plain", "wall_ms"),
            ratio(cell, "plain", "growth_mb"),
            *(ratio(cell, name) for name in contenders),
        ]
        for batch, cell in cells.items()
    ]
    return markdown(heads, rows)
