"""A group of commands whose files are its commands, and the one place that handles errors."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import pkgutil
import signal
from pathlib import Path
from typing import IO, Any

import click

from lipdp.errors import LipdpError

#: What backends raise where no memory is left; none of them is imported here.
_OUT_OF_MEMORY = ("ResourceExhaustedError", "OutOfMemoryError")
_NO_MEMORY = (
    "There is not enough memory for this model and these batches. Make the model smaller, lower "
    "training.batch_size, or set training.micro_batch_size to the rows that fit at a time."
)


class Refused(click.ClickException):
    """Bad input: the message on stderr, exit code 2."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Ended by a signal: exit code 128 and its number, as shells expect; 130 for Control-C.

    Args:
        message: What is left, and how to go on.
        number: Of the signal.
    """

    def __init__(self, message: str = "Interrupted.", number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.exit_code = 128 + number

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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, with a guess at what a misspelt command was meant to be."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if close and "Did you mean" not in error.message:
                error.message += f" Did you mean {close[0]!r}?"
            raise

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
        except Exception as error:
            if isinstance(error, MemoryError) or type(error).__name__ in _OUT_OF_MEMORY:
                raise Refused(_NO_MEMORY) from error
            raise

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
