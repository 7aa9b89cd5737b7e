"""Predict the rows of a file with a trained run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lipdp.cli import _output, _runs
from lipdp.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd


@click.command("predict")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="Rows to predict: a file or a folder of images, as the run was trained on.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.csv",
    required=True,
    help="File to write, one line a row.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it is already there.")
@click.option("--quiet", is_flag=True, help="Write nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Write what was written as JSON.")
def command(
    *, run: Path, data: Path, output: Path, overwrite: bool, quiet: bool, as_json: bool
) -> None:
    """Predict the rows of a file with the model in the folder RUN.

    Example: lipdp predict runs/first --data new.csv -o predictions.csv
    """
    _check_output(output, data, overwrite)
    with _runs.quiet_start():
        from lipdp.run import predict

    predictions = predict(run, data)
    _write(predictions, output, overwrite)
    if as_json:
        _output.emit_json(
            {"rows": len(predictions), "output": str(output), "columns": list(predictions)}
        )
    elif not quiet:
        click.echo(f"{len(predictions)} rows written to {output}")


def _check_output(output: Path, data: Path, overwrite: bool) -> None:
    if not output.parent.is_dir():
        raise InvalidValue(
            "The folder of the output does not exist",
            received=str(output),
            fix="Create the folder, or choose another one",
        )
    if output.exists() and output.samefile(data):
        raise InvalidValue(
            "The output is the data file itself",
            received=str(output),
            fix="Choose another output file",
        )
    if output.exists() and not overwrite:
        raise _present(output)


def _write(predictions: pd.DataFrame, output: Path, overwrite: bool) -> None:
    """Whole or not at all: the final name appears only once every row is on disk."""
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        predictions.to_csv(part, index=False)
        if overwrite:
            part.replace(output)
        else:
            _link(part, output)
    finally:
        part.unlink(missing_ok=True)


def _link(part: Path, output: Path) -> None:
    """A hard link refuses an existing name, even one that appeared meanwhile."""
    try:
        output.hardlink_to(part)
    except FileExistsError:
        raise _present(output) from None


def _present(output: Path) -> InvalidValue:
    return InvalidValue(
        "The output already exists",
        received=str(output),
        fix="Choose another file, or add --overwrite",
    )
