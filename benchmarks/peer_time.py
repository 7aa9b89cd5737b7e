"""Steps of other packages, each against its own plain step, in environments of their own.

Run: python -m benchmarks.peer_time --net mlp
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import clock as clocks
from benchmarks.cells import BATCHES, run_cells, steps_of
from benchmarks.clock import Clock
from benchmarks.environments import DEFAULT
from benchmarks.peers import FRAMEWORKS, peer_contenders
from benchmarks.race import Contender
from benchmarks.record import versions

#: Packages whose versions are named beside those that every result names.
PACKAGES = (
    "torch",
    "opacus",
    "jax",
    "jax-privacy",
    "flax",
    "optax",
    "tensorflow",
    "tensorflow-privacy",
    "tf-keras",
    "numpy",
)


@click.command()
@click.option("--net", type=click.Choice(list(BATCHES)), default="mlp", show_default=True)
@click.option("--batch", "batches", type=int, multiple=True, help="Repeatable; all by default.")
@click.option(
    "--framework",
    "only",
    type=click.Choice(list(FRAMEWORKS)),
    multiple=True,
    help="Repeatable; all by default.",
)
@click.option("--turns", default=5, show_default=True, help="Turns of each contender.")
@click.option(
    "--environments",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT,
    show_default=True,
    help="Folder of the environments, made on demand.",
)
@clocks.options
def main(
    net: str,
    batches: tuple[int, ...],
    only: tuple[str, ...],
    turns: int,
    environments: Path,
    results: Path,
    seconds: float,
    quick: bool,
) -> None:
    """Writes step_time_NET_FRAMEWORK for every other framework, or those that are named."""
    chosen = batches or ((64,) if quick else BATCHES[net])
    clock = Clock(seconds)
    found = peer_contenders(net, chosen[0], steps_of(net, chosen[0]), environments)
    frameworks = {name: told for name, told in found.items() if name in (only or found)}
    if not frameworks:
        raise click.ClickException("No environment of these packages could be made.")
    for number, framework in enumerate(frameworks):

        def make(batch: int, framework: str = framework) -> dict[str, Contender]:
            return peer_contenders(net, batch, steps_of(net, batch), environments)[framework]

        run_cells(
            f"step_time_{net}_{framework}",
            make,
            chosen,
            1 if quick else turns,
            command=f"python -m benchmarks.peer_time --net {net} --turns {turns}",
            packages=versions(PACKAGES, frameworks[framework]["plain"].python),
            clock=Clock(clock.left / (len(frameworks) - number)),
            folder=results,
        )


if __name__ == "__main__":
    main()
