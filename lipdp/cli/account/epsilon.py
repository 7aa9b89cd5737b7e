"""The epsilon that a number of noisy steps costs."""

from __future__ import annotations

import click

from lipdp.cli import _output
from lipdp.cli.account import _options


@click.command("epsilon")
@_options.phases
@_options.guarantee
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
) -> None:
    """The epsilon that a number of noisy steps on Poisson-sampled batches costs.

    Example: lipdp account epsilon --sampling-rate 0.01 --noise-multiplier 1 --steps 1000
    --delta 1e-5
    """
    from lipdp.privacy import account
    from lipdp.results.lines import digits_up

    phases = _options.read_phases(sampling_rate, noise_multiplier, steps, more)
    spent = account(phases, delta, accountant=accountant, adjacency=adjacency)
    if as_json:
        inputs = {"delta": delta, "accountant": accountant, "adjacency": adjacency}
        _output.emit_json(
            {
                "epsilon": spent.epsilon,
                "method": spent.method,
                **_options.describe(phases),
                **inputs,
            }
        )
        return
    rows = [(p.sampling_rate, p.noise_multiplier, p.steps) for p in phases]
    _output.emit_table("Steps", ["sampling rate", "noise multiplier", "steps"], rows)
    click.echo(
        f"\nepsilon {digits_up(spent.epsilon)} at delta {delta:g} ({accountant}, {adjacency})"
    )
    click.echo(f"computed by: {spent.method}")
