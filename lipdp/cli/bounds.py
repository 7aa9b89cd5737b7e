"""Show the proved bounds of a model, layer by layer."""

from __future__ import annotations

import math
from pathlib import Path

import click

from lipdp.cli import _output, _runs

_COLUMNS = ["layer", "variable", "output_bound", "lipschitz", "bound", "noise_stddev"]


@click.command("bounds")
@click.argument("source", type=click.Path(exists=True, path_type=Path), required=False)
@_runs.data_options
@_runs.overrides_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(
    source: Path | None,
    data_dir: Path | None,
    limit_rows: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the bounds of SOURCE: a configuration, the folder of a run, or a saved model.

    Without SOURCE, the packaged default configuration is taken. output_bound is the largest norm of
    the layer's output, lipschitz its Lipschitz constant, bound the largest gradient of one row,
    noise_stddev the noise on the sum; all norms are Euclidean.
    """
    with _runs.quiet_start():
        from lipdp.run import bounds_table

    table = bounds_table(source, overrides, values=_runs.data_values(data_dir, limit_rows))
    columns = [name for name in _COLUMNS if name in table]
    rows = [[_plain(value) for value in row] for row in table[columns].itertuples(index=False)]
    if as_json:
        _output.emit_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    _output.emit_table("Bounds", columns, rows)


def _plain(value: object) -> object:
    """A value of a frame as a plain number, text, or None where there is none."""
    plain = value.item() if hasattr(value, "item") else value
    return plain if isinstance(plain, (str, int)) or _is_number(plain) else None


def _is_number(value: object) -> bool:
    return isinstance(value, float) and not math.isnan(value)
