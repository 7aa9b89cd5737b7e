"""The smallest noise multiplier that keeps an epsilon."""

from __future__ import annotations

import click

from lipdp.cli import _output
from lipdp.cli.account import _options


@click.command("noise")
@click.option("--epsilon", type=float, metavar="E", required=True, help="Budget to keep.")
@_options.sampling_rate(required=True)
@_options.steps(required=True)
@_options.guarantee
def command(
    *,
    epsilon: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    accountant: str,
    adjacency: str,
    as_json: bool,
) -> None:
    """The smallest noise multiplier that keeps an epsilon over a number of steps.

    Example: lipdp account noise --epsilon 1 --sampling-rate 0.01 --steps 1000 --delta 1e-5
    """
    from lipdp import privacy
    from lipdp.results.lines import digits_up

    how = {"accountant": accountant, "adjacency": adjacency}
    multiplier = privacy.calibrate_noise_multiplier(epsilon, delta, sampling_rate, steps, **how)
    spent = privacy.epsilon(sampling_rate, multiplier, steps, delta, **how)
    if as_json:
        inputs = {"sampling_rate": sampling_rate, "steps": steps, "delta": delta, **how}
        found = {"noise_multiplier": multiplier, "epsilon": spent, "target_epsilon": epsilon}
        _output.emit_json({**found, **inputs})
        return
    click.echo(f"noise multiplier {multiplier:.6g}")
    click.echo(f"epsilon {digits_up(spent)} at delta {delta:g} ({accountant}, {adjacency})")
