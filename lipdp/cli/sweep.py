"""Try many settings, choose the best run, and say what choosing cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lipdp.cli import _runs

if TYPE_CHECKING:
    from lipdp.config import RunConfig
    from lipdp.sweep import SweepResult


@click.command("sweep")
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--trials", type=int, metavar="N", help="How many trials in all.")
@click.option(
    "--random-trials",
    type=float,
    metavar="MEAN",
    help="Instead: a secret random number of trials with this mean, settings drawn at random.",
)
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes on this machine.")
@click.option(
    "--storage",
    metavar="URL",
    help="Where trials are kept, as in sqlite:///sweep.db or postgresql://...; several machines "
    "may share one.  [default: a file in the output]",
)
@click.option("--study", metavar="NAME", help="Name in the storage.  [default: that of the output]")
@_runs.data_options
@_runs.overrides_option
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the sweep.  [default: runs/<config>]",
)
@click.option("--quiet", is_flag=True, help="Write nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as JSON, nothing else.")
def command(
    *,
    config: Path,
    trials: int | None,
    random_trials: float | None,
    jobs: int,
    storage: str | None,
    study: str | None,
    data_dir: Path | None,
    limit_rows: int | None,
    overrides: tuple[str, ...],
    output: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Try the settings in [sweep.space] of the file CONFIG and choose the best run.

    Trials are compared on a part of the training rows that none of them trains on. The privacy cost
    of choosing is shown both ways: all trials together, and the best of a random number of trials.
    The latter is a guarantee with --random-trials only, and if nothing but the best run is
    published.

    The same command goes on with a sweep that was interrupted; a larger --trials adds to it.

    Where machines share a storage, only the machine that runs a trial knows what it has spent until
    it ends; elsewhere it counts as infinite. If a machine is gone for good, copy its folder trials,
    hidden files too, into that of another machine's output, whose command goes on with its trials.

    \b
    Examples:
      lipdp sweep configs/adult-sweep.toml --trials 20 --jobs 2
      lipdp sweep configs/adult-sweep.toml --random-trials 10 --output runs/best-of-ten
    """  # noqa: D301
    from lipdp.config import load_config

    run = load_config(config, overrides, values=_runs.data_values(data_dir, limit_rows))
    where = output or Path("runs") / config.stem
    places = {"storage": storage, "study": study}
    numbers = {"trials": trials, "random_trials": random_trials, "jobs": jobs}
    silent = quiet or as_json
    result = _sweep(run, where, silent, **numbers, **places)
    if as_json:
        click.echo(result.model_dump_json(indent=2))
    elif not quiet:
        from lipdp.cli._summary import write_sweep

        write_sweep(result, where)
    if result.best is None:
        _refuse(result)


def _refuse(result: SweepResult) -> None:
    """There is nothing to choose from."""
    from lipdp.errors import InvalidState

    reasons = [trial.reason for trial in result.trials if trial.reason]
    raise InvalidState(
        "No trial finished" + (f". The first said: {reasons[0]}" if reasons else ""),
        fix="Change sweep.space or the configuration, and choose another --output",
    )


def _sweep(run: RunConfig, output: Path, silent: bool, **options: object) -> SweepResult:
    from lipdp.cli._group import Interrupted
    from lipdp.cli._progress import SignalStopper
    from lipdp.cli._summary import trial_hearer

    with _runs.quiet_start():
        from lipdp.sweep import sweep
    with SignalStopper() as stopper, trial_hearer(silent) as hearer:
        try:
            return sweep(run, output, hearer=hearer, **options)  # type: ignore[arg-type]
        except KeyboardInterrupt as error:
            raise Interrupted(
                f"Interrupted. {output} holds the trials so far, with what they spent. The same "
                "command goes on.",
                stopper.number,
            ) from error
