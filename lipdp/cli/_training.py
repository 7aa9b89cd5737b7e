"""A training at the command line: what is heard, what is written, how it is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lipdp.cli import _runs
from lipdp.cli._group import Interrupted
from lipdp.cli._progress import PlainListener, SignalStopper, listener
from lipdp.cli._summary import write_summary
from lipdp.results.lines import counted

if TYPE_CHECKING:
    from lipdp.config import RunConfig
    from lipdp.run import TrainOutcome

Start = Callable[[PlainListener | None, SignalStopper], "TrainOutcome"]


def begin(
    run: RunConfig,
    output: Path,
    quiet: bool,
    as_json: bool,
    *,
    overwrite: bool,
    ledger_lost: bool,
) -> None:
    """Trains by a configuration."""
    with _runs.quiet_start():
        from lipdp.run import train

    def start(ears: PlainListener | None, stopper: SignalStopper) -> TrainOutcome:
        return train(
            run,
            output,
            overwrite=overwrite,
            ledger_lost=ledger_lost,
            listener=ears,
            stopper=stopper,
        )

    _run(start, output, quiet, as_json, goes_on=run.training.method == "clipless")


def go_on(output: Path, quiet: bool, as_json: bool, *, ledger_lost: bool) -> None:
    """Goes on with an interrupted run."""
    with _runs.quiet_start():
        from lipdp.run import resume

    def start(ears: PlainListener | None, stopper: SignalStopper) -> TrainOutcome:
        return resume(output, ledger_lost=ledger_lost, listener=ears, stopper=stopper)

    _run(start, output, quiet, as_json)


def _run(start: Start, output: Path, quiet: bool, as_json: bool, *, goes_on: bool = True) -> None:
    with SignalStopper() as stopper, listener(silent=quiet or as_json) as ears:
        try:
            outcome = start(ears, stopper)
        except KeyboardInterrupt as error:
            raise Interrupted(_left_behind(output, goes_on), stopper.number) from error
    if as_json:
        click.echo(outcome.result.model_dump_json(indent=2))
    elif not quiet:
        click.echo("")
        write_summary(outcome.result, outcome.output, outcome.baseline)
    if outcome.result.interrupted:
        raise Interrupted(
            f"Interrupted after {counted(outcome.result.spent.steps, 'step')}. "
            f"{output} holds the run so far. "
            f"To go on: lipdp train --resume {output}",
            stopper.number,
        )


def _left_behind(output: Path, goes_on: bool) -> str:
    from lipdp.run import is_unfinished

    if not goes_on:
        return "Interrupted. Only the method clipless can go on; steps that ran are spent."
    if not is_unfinished(output):
        return "Interrupted before the first step: nothing was spent, and nothing is left behind."
    return (
        "Interrupted at once. The steps since the last backup are lost, but not what they cost: "
        f"it is in the ledger. To go on: lipdp train --resume {output}"
    )
