"""The command line: one file, one command, imported only when it is called."""

from __future__ import annotations

import click

from lipdp._version import __version__
from lipdp.cli._group import LazyGroup

__all__ = ["COMMANDS", "main"]

COMMANDS = LazyGroup(
    package=__name__,
    name="lipdp",
    help="Train Keras models with differential privacy, without per-sample gradient clipping.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = click.version_option(__version__, prog_name="lipdp")(COMMANDS)


def main() -> None:
    """Runs the command line; the entry point of ``lipdp`` and of ``python -m lipdp``."""
    COMMANDS(prog_name="lipdp")
