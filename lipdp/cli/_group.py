"""A group of commands whose files are its commands, and the one place that handles errors."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
from pathlib import Path
from typing import IO, Any

import click

from lipdp.errors import LipdpError


class Refused(click.ClickException):
    """Bad input: the message on stderr, exit code 2."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Control-C: exit code 130, as shells expect of a process ended by SIGINT."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("Interrupted.")

    def show(self, file: IO[Any] | None = None) -> None:
        """Writes the message to stderr."""
        click.echo(self.message, file=file, err=True)


class LazyGroup(click.Group):
    """A group that finds its commands as files of one package.

    The file ``train.py`` holds the command ``train`` under the name ``command``; the first line of
    its docstring is its short help. Files whose name begins with an underscore are no commands.
    Listing the commands imports none of them.

    Args:
        package: Dotted name of the package.
        **kwargs: As for ``click.Group``.
    """

    def __init__(self, package: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Sorted names of the files."""
        return sorted(self._files())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the file of a command."""
        if cmd_name not in self._files():
            return None
        return importlib.import_module(f"{self.package}.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists each command with the first line of its file's docstring."""
        rows = [(name, _first_line(path)) for name, path in sorted(self._files().items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command; an error raised on purpose becomes a message, never a traceback."""
        try:
            return super().invoke(ctx)
        except LipdpError as error:
            raise Refused(error.message) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Refused(str(error)) from error
        except KeyboardInterrupt as error:
            raise Interrupted from error

    def _files(self) -> dict[str, Path]:
        spec = importlib.util.find_spec(self.package)
        folders = list(spec.submodule_search_locations or []) if spec else []
        modules = [m.name for m in pkgutil.iter_modules(folders) if not m.name.startswith("_")]
        return {name: _source(Path(folders[0]), name) for name in modules}


def _source(folder: Path, name: str) -> Path:
    package = folder / name / "__init__.py"
    return package if package.exists() else folder / f"{name}.py"


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
