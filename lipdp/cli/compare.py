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
    from lipdp.reports.sections import Cell, Estimate

_METHODS = ("clipless", "dp-sgd", "none")


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
@_runs.data_options
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
    data_dir: Path | None,
    limit_rows: int | None,
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

    base = load_config(config, overrides, values=_runs.data_values(data_dir, limit_rows))
    folder = output or _default_output(base)
    with _runs.quiet_start():
        from lipdp.run.compare import compare, planned_runs
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
    from lipdp.cli._progress import SignalStopper

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
    from lipdp.reports import load_runs, notes_on_unseen, pareto_files, write_pareto_report
    from lipdp.reports.loading import finished_inside
    from lipdp.reports.sections import sections

    runs, page = load_runs(folders), output / "compare.html"
    others = [folder for folder in finished_inside(output) if folder not in folders]
    notes = notes_on_unseen(folders, others)
    write_pareto_report(runs, page, notes)
    cells = [cell for section in sections(runs) for cell in section.everything]
    radii = sorted({(u, r) for cell in cells for u in cell.units for r in cell.radii(u)})
    titles = [f"certified at {radius:g}" for _, radius in radii]
    measures = ["accuracy", "AUROC", *titles]
    columns = ["method", "epsilon", "runs", *measures, "seconds", "memory"]
    ordered = sorted(cells, key=lambda c: (c.epsilon, c.method))
    rows = [_row(cell, _estimates(cell, radii)) for cell in ordered]
    if as_json:
        _output.emit_json([_plain(c, measures, _estimates(c, radii)) for c in ordered])
    elif not quiet:
        click.echo("")
        _output.emit_table("Mean, with its 95 % interval over seeds", columns, rows)
        click.echo("")
        paths = [str(path) for path in pareto_files(page)]
        click.echo("\n".join([*notes, "written: " + ", ".join(paths)]))


def _estimates(cell: Cell, radii: Sequence[tuple[str, float]]) -> list[Estimate | None]:
    return [cell.accuracy, cell.auroc, *(cell.certified(unit, radius) for unit, radius in radii)]


def _epsilon(cell: Cell) -> float:
    return math.inf if cell.method == "none" else cell.epsilon


def _row(cell: Cell, found: Sequence[Estimate | None]) -> list[Any]:
    from lipdp.reports.page import memory

    cost = [round(cell.seconds, 1), memory(cell.memory)]
    return [cell.method, _epsilon(cell), len(cell.runs), *map(_interval, found), *cost]


def _interval(value: Estimate | None) -> str | None:
    if value is None:
        return None
    found = value.share_interval
    return f"{value.mean:.4f}" + ("" if found is None else f" ({found[0]:.4f}-{found[1]:.4f})")


def _plain(cell: Cell, names: Sequence[str], found: Sequence[Estimate | None]) -> dict[str, Any]:
    """A row in numbers, for programs."""
    measured = dict(zip(names, found, strict=True))
    return {
        "method": cell.method,
        "epsilon": _epsilon(cell),
        "runs": len(cell.runs),
        **{
            name: one and {"mean": one.mean, "interval": one.share_interval}
            for name, one in measured.items()
        },
        "seconds": cell.seconds,
        "peak_memory_bytes": cell.memory,
    }
