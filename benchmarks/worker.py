"""The racing side of one worker: its process, its turns, and the limits of what it may take."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
#: Seconds between two looks at a worker's memory.
_LOOK = 0.2
_LONGEST_REASON = 120


class Skipped(Exception):
    """Why a worker takes no further turn."""


@dataclass(frozen=True)
class Limits:
    """What a worker may take before it is skipped.

    Attributes:
        step_seconds: Of a step, on the average of a turn.
        turn_seconds: Of a turn, and of what comes before the first one.
        peak_bytes: Of resident memory.
    """

    step_seconds: float = 20.0
    turn_seconds: float = 90.0
    peak_bytes: float = 8 * 2**30


class Worker:
    """A process that makes a turn when it is told to; first it has to be ready.

    Args:
        command: Of the process; the cell follows as JSON.
        cell: What the worker is told.
        variables: Environment variables of its own.
        limits: What it may take.
    """

    def __init__(
        self,
        command: Sequence[str],
        cell: Mapping[str, Any],
        variables: Mapping[str, str],
        limits: Limits,
    ) -> None:
        own = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT), **variables}
        self._limits = limits
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the worker
        self._process = subprocess.Popen(
            [*command, json.dumps(cell)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **own},
            cwd=ROOT,
        )
        # A thread reads, since waiting for a line must not keep from looking at memory.
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._pump, daemon=True).start()

    def ready(self) -> None:
        """Waits until it is ready for its first turn, and notes its memory as ``idle_peak``.

        Raises:
            Skipped: If that took too much, or the worker died.
        """
        self.idle_peak = self._read()["peak"]

    def turn(self) -> dict[str, float]:
        """Cost of a step in this turn, and as ``turn`` the seconds of the whole turn.

        Raises:
            Skipped: If it took too much, or the worker died.
        """
        start = time.monotonic()
        self._write("go")
        cost = self._read()
        self._read()  # ready again
        if cost["wall"] > self._limits.step_seconds:
            raise Skipped(f"a step takes {cost['wall']:.0f} s")
        return {**cost, "turn": time.monotonic() - start}

    def end(self) -> None:
        """Lets it end by itself, for a while."""
        self._write("")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self.kill()

    def kill(self) -> None:
        """Ends it now."""
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def _write(self, line: str) -> None:
        # Where it is gone, the next reading says so.
        with contextlib.suppress(BrokenPipeError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()

    def _pump(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def _read(self) -> dict[str, float]:
        """The next line of JSON; whatever else a package prints is passed over."""
        last = time.monotonic() + self._limits.turn_seconds
        while time.monotonic() < last:
            self._check_memory()
            try:
                line = self._lines.get(timeout=_LOOK)
            except queue.Empty:
                continue
            if not line:
                raise Skipped(self._cause_of_death())
            if line.startswith("{"):
                return json.loads(line)
        raise Skipped(f"no turn within {self._limits.turn_seconds:.0f} s")

    def _check_memory(self) -> None:
        peak = _peak_of(self._process.pid)
        if peak > self._limits.peak_bytes:
            raise Skipped(f"over {self._limits.peak_bytes / 2**30:.0f} GB")

    def _cause_of_death(self) -> str:
        """The last line that looks like an error, or how the process ended."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        named = [line.strip() for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        if any("RESOURCE_EXHAUSTED" in line or "MemoryError" in line for line in lines):
            return "out of memory"
        return f"died: {named[-1] if named else f'exit code {code}'}"[:_LONGEST_REASON]


def _peak_of(pid: int) -> int:
    """Largest resident bytes of a process so far; 0 where Linux does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 1024 * int(found.group(1)) if found else 0
