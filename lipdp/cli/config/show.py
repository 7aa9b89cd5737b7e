"""Show a whole configuration, with defaults and changes, as TOML."""

from __future__ import annotations

from pathlib import Path

import click

from lipdp.cli import _output, _runs


@click.command("show")
@click.argument(
    "config", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False
)
@_runs.overrides_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show the file CONFIG, or the packaged default, with every default and --set in it.

    What it writes is a configuration again. Keys without a value, and options of a model, loss or
    optimizer that keep their own defaults, are left out.

    Example: lipdp config show --set privacy.epsilon=3 > my.toml
    """
    from lipdp.config import dump_config, load_config, parse_toml

    text = dump_config(load_config(config, overrides), with_sweep=True)
    if as_json:
        _output.emit_json(parse_toml(text, "configuration"))
    else:
        click.echo(text.rstrip("\n"))
