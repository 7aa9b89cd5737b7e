"""Begin a schema for a file of your own."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("schema")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--target", metavar="NAME", required=True, help="The column to predict.")
def command(file: Path, target: str) -> None:
    """Write a blank schema of FILE, to be completed with what is publicly known.

    Example: lipdp schema my.csv --target income > my.toml
    """
    from lipdp.datasets import read_table
    from lipdp.preprocessing import blank_schema

    click.echo(blank_schema(read_table(file), target).rstrip("\n"))
