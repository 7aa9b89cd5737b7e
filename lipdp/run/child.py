"""A process that is heard line by line and never outlives the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import lipdp

_LAST_LINES = 12
_PATIENCE_S = 30.0


class ChildFailed(Exception):
    """A process that ended with another code than 0.

    Attributes:
        code: How it ended; negative for the number of a signal.
        last_lines: What it wrote last to standard error.
    """

    def __init__(self, code: int, last_lines: str) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.last_lines = last_lines


def run_child(
    arguments: Sequence[str], environment: Mapping[str, str], on_line: Callable[[str], None]
) -> None:
    """Runs Python with this package on its path, until it ends.

    Control-C in a terminal reaches this process alone. Whatever is raised here interrupts the
    child, which has some seconds to end.

    Args:
        arguments: Of Python.
        environment: Added to that of this process.
        on_line: Hears each line of standard output.

    Raises:
        ChildFailed: If it did not end with 0.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **_on_path(), **environment},
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        try:
            for line in process.stdout or ():
                on_line(line)
            code = process.wait()
        finally:
            _end(process)
        if code != 0:
            raise ChildFailed(code, _tail(errors))


def _on_path() -> dict[str, str]:
    """The child finds the package that runs here, installed or not."""
    here = str(Path(lipdp.__file__).parent.parent)
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": here if not before else os.pathsep.join((here, before))}


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_PATIENCE_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _tail(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
    return "\n".join(lines[-_LAST_LINES:])
