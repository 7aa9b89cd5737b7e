"""Epsilon over the steps of a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lipdp.cli import _output
from lipdp.cli.account import _options

if TYPE_CHECKING:
    from lipdp.privacy import Phase


@click.command("curve")
@_options.phases
@_options.guarantee
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Rows of the table, evenly spaced over the steps.",
)
def command(
    *,
    sampling_rate: float | None,
    noise_multiplier: float | None,
    steps: int | None,
    more: tuple[tuple[float, float, int], ...],
    delta: float,
    accountant: str,
    adjacency: str,
    as_json: bool,
    points: int,
) -> None:
    """Epsilon over the steps of a plan; phases are taken in the order given.

    Example: lipdp account curve --sampling-rate 0.01 --noise-multiplier 1 --steps 1000
    --delta 1e-5 --points 10
    """
    from lipdp.privacy import epsilon_of

    phases = _options.read_phases(sampling_rate, noise_multiplier, steps, more)
    how = {"accountant": accountant, "adjacency": adjacency}
    counts = _spaced(sum(p.steps for p in phases), points)
    rows = [(count, epsilon_of(_first(phases, count), delta, **how)) for count in counts]
    if as_json:
        curve = [{"steps": count, "epsilon": spent} for count, spent in rows]
        inputs = {**_options.describe(phases), "delta": delta, **how}
        _output.emit_json({"epsilon": rows[-1][1], **inputs, "curve": curve})
        return
    title = f"Epsilon at delta {delta:g} ({accountant}, {adjacency})"
    _output.emit_table(title, ["steps", "epsilon"], rows)


def _spaced(total: int, points: int) -> list[int]:
    """At most ``points`` different whole numbers up to ``total``, the last one included."""
    return sorted({-(-total * (i + 1) // points) for i in range(points)})


def _first(phases: list[Phase], count: int) -> list[Phase]:
    """The phases cut off after ``count`` steps."""
    kept = []
    for phase in phases:
        taken = min(phase.steps, count)
        kept.append(replace(phase, steps=taken))
        count -= taken
    return kept
