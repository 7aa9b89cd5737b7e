"""Begin a schema for a file or folder of your own."""

from __future__ import annotations

from pathlib import Path

import click

from lipdp.errors import InvalidValue


@click.command("schema")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--target", metavar="NAME", help="The column of a table to predict.")
def command(source: Path, target: str | None) -> None:
    """Write a blank schema of SOURCE, to be completed with what is publicly known.

    SOURCE is a table (.csv, .csv.gz, .parquet), arrays (.npz with x and y, .npy), or a folder (or
    .zip) of images, one folder a class.

    \b
    Examples:
      lipdp schema my.csv --target income > my.toml
      lipdp schema photos > photos.toml
    """  # noqa: D301
    from lipdp.datasets import is_table, read_table
    from lipdp.preprocessing import blank_schema
    from lipdp.preprocessing.facts import about

    if not is_table(source):
        text = _of_arrays(source, target)
    elif target is None:
        raise InvalidValue(
            "The schema of a table needs --target, the column to predict",
            received=str(source),
            fix="Add --target NAME",
        )
    else:
        frame = read_table(source)
        with about(str(source)):
            text = blank_schema(frame, target)
    click.echo(text.rstrip("\n"))


def _of_arrays(source: Path, target: str | None) -> str:
    from lipdp.datasets import array_form
    from lipdp.preprocessing import blank_array_schema
    from lipdp.preprocessing.facts import about

    form = array_form(source)
    if target is not None:
        raise InvalidValue(
            f"--target names a column, and {source} is no table",
            received=target,
            fix="Leave it out",
        )
    with about(str(source)):
        return blank_array_schema(*form)
