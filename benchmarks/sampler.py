"""Cost of drawing and reading private batches from rows in a file that is mapped into memory.

Beside the private batch stand what anyone pays to read a batch: rows in the order of the file, and
as many rows at random places. The file was just written, so most of it is in the system's cache.

Run: python -m benchmarks.sampler
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import clock as clocks
from benchmarks.clock import Clock, alternated
from benchmarks.record import NO_TIME, markdown, measured_before, today, versions, write

COLUMNS = 32
COUNTS = (10**4, 10**5, 10**6, 10**7)
BATCHES = (1024, 8192)
DELTA = 1e-8
_CHUNK = 500_000


def make_rows(path: Path, count: int) -> np.ndarray:
    """Rows of float32 in a file, opened for reading."""
    rows = np.lib.format.open_memmap(path, "w+", "float32", (count, COLUMNS))
    rng = np.random.default_rng(0)
    for start in range(0, count, _CHUNK):
        part = rows[start : start + _CHUNK]
        part[:] = rng.random(part.shape, dtype="float32")
    rows.flush()
    return np.load(path, mmap_mode="r")


def own_memory() -> float:
    """MB that belong to this process and to no file (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def actions(x: np.ndarray, batch: int) -> dict[str, Callable[[], Any]]:
    """Ways to read a batch of rows."""
    from lipdp.privacy import PoissonSampler
    from lipdp.training.batches import PrivateBatches, Slots
    from lipdp.training.data import single_rows

    count = len(x)
    sampler = PoissonSampler(count, batch)
    most = sampler.capacity(1000, DELTA).rows
    y = np.zeros(count, "int64")
    batches = PrivateBatches(x, y, single_rows(count), sampler, slots=Slots(most, 1, most))
    rng, starts = np.random.default_rng(1), itertools.cycle(range(0, count - batch, batch))
    return {
        "file_order": lambda: np.array(x[(start := next(starts)) : start + batch]),
        "random_rows": lambda: x[rng.integers(count, size=batch)],
        "draw": sampler.draw,
        "private_batch": lambda: batches[0],
    }


def measured(x: np.ndarray, batch: int, turns: int) -> dict[str, float]:
    """Milliseconds of each way, and the growth of memory."""
    before = own_memory()
    ways = actions(x, batch)
    seconds = alternated(ways, turns)
    found = {f"{name}_ms": 1e3 * value for name, value in seconds.items()}
    found["draw_ns_per_row"] = 1e9 * seconds["draw"] / batch
    found["memory_mb"] = own_memory() - before
    ways.clear()
    return found


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown."""
    heads = {
        "file_order_ms": "rows in order: ms",
        "random_rows_ms": "random rows: ms",
        "draw_ms": "draw: ms",
        "private_batch_ms": "private batch: ms",
        "draw_ns_per_row": "draw: ns a drawn row",
        "memory_mb": "memory: MB",
    }
    rows = [[name, *(cell.get(kind) for kind in heads)] for name, cell in cells.items()]
    return markdown(["rows, batch", *heads.values()], rows)


@click.command()
@click.option("--turns", default=15, show_default=True)
@click.option(
    "--scratch",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the file of 1.3 GB goes while it is needed.  [default: the system's]",
)
@clocks.options
def main(turns: int, scratch: Path | None, results: Path, seconds: float, quick: bool) -> None:
    """Writes sampler.json and sampler.md."""
    import lipdp.training  # noqa: F401  (before memory is measured)

    clock, packages = Clock(seconds), versions()
    cells, days = measured_before(results / "sampler.json", packages)
    counts, batches = (COUNTS[:1], BATCHES[:1]) if quick else (COUNTS, BATCHES)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        whole = make_rows(Path(folder) / "rows.npy", counts[-1])
        for count, batch in itertools.product(counts, batches):
            key = f"{count:,}, {batch}"
            cells.setdefault(key, NO_TIME)
            if clock.left > 0.0:
                cells[key], days[key] = measured(whole[:count], batch, turns), today()
            click.echo(f"{key}: {cells[key]}")
    write(
        "sampler",
        cells,
        table(cells),
        command=f"python -m benchmarks.sampler --turns {turns}",
        packages=packages,
        folder=results,
        measured=days,
    )


if __name__ == "__main__":
    main()
