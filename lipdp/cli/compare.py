"""Compare private training with and without clipping, and training without privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lipdp.cli import _output, _runs

if TYPE_CHECKING:
    from lipdp.config import RunConfig
    from lipdp.reports.cells import Cell
    from lipdp.reports.estimates import Estimate

_METHODS = ("clipless", "dp-sgd", "none")
_MIB = 2.0**20


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


#: Options that take what follows them as long as it fits.
_LISTS: Mapping[str, Callable[[str], bool]] = {
    "--epsilons": _is_number,
    "--methods": _METHODS.__contains__,
}


class _WithLists(click.Command):
    """A command whose options take lists, as in ``--epsilons 1 3 8`` or ``--epsilons 1,3,8``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeats the option before each value, as click knows it."""
        return super().parse_args(ctx, _repeated(args))


def _repeated(args: Sequence[str]) -> list[str]:
    found: list[str] = []
    option, empty = "", False
    for arg in args:
        name, equals, value = arg.partition("=")
        values: list[str] = []
        if name in _LISTS:
            option, empty, values = name, not equals, [value] if equals else []
        elif option and (empty or all(map(_LISTS[option], arg.split(",")))):
            # What comes right after the name is click's to judge.
            values, empty = [arg], False
        else:
            option = ""
            found.append(arg)
        found += [word for text in values for part in text.split(",") for word in (option, part)]
    return [*found, option] if empty else found


@click.command("compare", cls=_WithLists)
@click.argument(
    "config", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False
)
@click.option(
    "--epsilons",
    type=float,
    multiple=True,
    default=(1.0, 3.0, 8.0),
    metavar="E...",
    help="Budgets of the private methods.  [default: 1 3 8]",
)
@click.option("--seeds", type=int, default=3, show_default=True, help="Runs of each kind.")
@click.option(
    "--methods",
    type=click.Choice(_METHODS),
    multiple=True,
    default=_METHODS,
    help="What to compare.  [default: all three]",
)
@_runs.overrides_option
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of all runs.  [default: runs/compare-<data>]",
)
@click.option("--quiet", is_flag=True, help="Write nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Write the table as JSON, nothing else.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    config: Path | None,
    epsilons: tuple[float, ...],
    seeds: int,
    methods: tuple[str, ...],
    overrides: tuple[str, ...],
    output: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train by CONFIG, or the packaged default, with each method, epsilon and seed.

    The methods: clipless; dp-sgd, which clips by tensorflow-privacy, with the same architecture
    without constraints and the same sampler, steps and budget; none, without privacy. Intervals
    are of 95 % over seeds, which set the split and the first weights; noise stays random. The same
    command goes on where it was interrupted.

    \b
    Examples:
      lipdp compare --epsilons 1 3 8 --seeds 3
      lipdp compare configs/adult.toml --methods clipless dp-sgd --set dp_sgd.clip_norm=0.5
    """  # noqa: D301
    from lipdp.config import load_config

    base = load_config(config, overrides)
    folder = output or _default_output(base)
    with _runs.quiet_start():
        from lipdp.experiment.compare import compare, planned_runs
    runs = planned_runs(base, epsilons, seeds, methods)
    say = (lambda text: None) if quiet or as_json else click.echo
    with _interruptible(folder, methods):
        done = compare(runs, folder, say)
        if done.folders:
            _report(done.folders, folder, as_json, quiet)
    for name, reason in done.failures:
        click.echo(f"{name} failed: {reason}", err=True)
    ctx.exit(1 if done.failures else 0)


@contextmanager
def _interruptible(output: Path, methods: Sequence[str]) -> Iterator[None]:
    """Says what an interruption leaves, and how to go on."""
    from lipdp.cli._group import Interrupted
    from lipdp.cli._signals import SignalStopper

    with SignalStopper() as stopper:
        try:
            yield
        except KeyboardInterrupt as error:
            begins_anew = "; a dp-sgd run begins anew, with what is left of its budget"
            anew = begins_anew if "dp-sgd" in methods else ""
            raise Interrupted(
                f"Interrupted. {output} holds the runs so far, with what they spent. The same "
                f"command goes on{anew}.",
                stopper.number,
            ) from error


def _default_output(run: RunConfig) -> Path:
    return Path("runs") / f"compare-{run.data.name or Path(run.data.path or 'data').stem}"


def _report(folders: Sequence[Path], output: Path, as_json: bool, quiet: bool) -> None:
    from lipdp.reports import load_runs, pareto_files, write_pareto_report
    from lipdp.reports.grouping import sections

    runs, page = load_runs(folders), output / "compare.html"
    write_pareto_report(runs, page)
    cells = [cell for section in sections(runs) for cell in section.everything]
    radii = sorted({(u, r) for cell in cells for u in cell.units for r in cell.radii(u)})
    titles = [f"certified at {radius:g}" for _, radius in radii]
    columns = ["method", "epsilon", "runs", "accuracy", "AUROC", *titles, "seconds", "MiB"]
    rows = [_row(cell, radii) for cell in sorted(cells, key=lambda c: (c.epsilon, c.method))]
    if as_json:
        _output.emit_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif not quiet:
        click.echo("")
        _output.emit_table("Mean, with its 95 % interval over seeds", columns, rows)
        click.echo("")
        paths = [str(path) for path in pareto_files(page)]
        click.echo("written: " + ", ".join(paths))


def _row(cell: Cell, radii: Sequence[tuple[str, float]]) -> list[Any]:
    memory = None if cell.memory is None else round(cell.memory / _MIB)
    certified = [_interval(cell.certified(unit, radius)) for unit, radius in radii]
    epsilon = math.inf if cell.method == "none" else cell.epsilon
    scores = [_interval(cell.accuracy), _interval(cell.auroc), *certified]
    return [cell.method, epsilon, len(cell.runs), *scores, round(cell.seconds, 1), memory]


def _interval(value: Estimate | None) -> str | None:
    if value is None:
        return None
    width = "" if value.half_width is None else f" +- {value.half_width:.4f}"
    return f"{value.mean:.4f}{width}"
