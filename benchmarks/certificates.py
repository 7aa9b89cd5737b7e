"""Certificates a second, over plain predictions of the same model a second.

Run: python -m benchmarks.certificates
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import clock as clocks
from benchmarks.clock import Clock, alternated
from benchmarks.record import NO_TIME, markdown, measured_before, today, versions, write

MODELS = {
    "mlp": {"net": "mlp", "kind": "lipschitz", "activation": "max_min"},
    "cnn": {"net": "cnn", "kind": "lipschitz", "activation": "max_min", "pooling": "l2"},
}
ROWS = {"mlp": (1_000, 10_000, 100_000), "cnn": (1_000, 10_000)}
HEADS = ["model", "rows", "certificates a second", "predictions a second", "time over prediction"]


def rates(net: str, rows: int, turns: int) -> dict[str, float]:
    """Rates at one number of rows."""
    import lipdp
    from benchmarks.workers.keras_steps import SHAPES, make_model

    model = make_model(MODELS[net])
    x = np.random.default_rng(0).normal(size=(rows, *SHAPES[net])).astype("float32")
    seconds = alternated(
        {
            "predict": lambda: model.predict(x, batch_size=1024, verbose=0),
            "certify": lambda: lipdp.certify(model, x, batch_size=1024),
        },
        turns,
    )
    return {
        "rows": rows,
        "certificates_per_second": rows / seconds["certify"],
        "predictions_per_second": rows / seconds["predict"],
        "wall_ratio": seconds["certify"] / seconds["predict"],
    }


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown."""
    kinds = ("rows", "certificates_per_second", "predictions_per_second", "wall_ratio")
    rows = [[name, *(cell.get(kind) for kind in kinds)] for name, cell in cells.items()]
    return markdown(HEADS, rows)


@click.command()
@click.option("--turns", default=5, show_default=True)
@clocks.options
def main(turns: int, results: Path, seconds: float, quick: bool) -> None:
    """Writes certificates.json and certificates.md."""
    clock, packages, longest = Clock(seconds), versions(), 0.0
    cells, measured = measured_before(results / "certificates.json", packages)
    for net, sizes in ROWS.items():
        for rows in (256,) if quick else sizes:
            key, begin = f"{net}, {rows:,} rows", clock.passed
            cells.setdefault(key, NO_TIME)
            if clock.has_room(longest):
                cells[key] = rates(net, rows, 1 if quick else turns)
                measured[key] = today()
            longest = max(longest, clock.passed - begin)
            click.echo(f"{key}: {cells[key]}")
            write(
                "certificates",
                cells,
                table(cells),
                command=f"python -m benchmarks.certificates --turns {turns}",
                packages=packages,
                folder=results,
                measured=measured,
            )


if __name__ == "__main__":
    main()
