"""The processes of a sweep on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lipdp.sweep.study import Place, place_to_json

_COMMAND = [sys.executable, "-m", "lipdp.sweep.worker"]
_PATIENCE_S = 60.0


class Workers:
    """Starts processes that run trials; none outlives this one.

    What they write goes to ``logs`` in the sweep's folder.

    Args:
        place: Where the sweep lies.
        jobs: How many processes.
    """

    def __init__(self, place: Place, jobs: int) -> None:
        logs = Path(place.output) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._running = [_start(place, logs / f"worker-{i + 1}.log", jobs) for i in range(jobs)]

    @property
    def alive(self) -> bool:
        """Whether one still runs."""
        return any(process.poll() is None for process in self._running)

    @property
    def crashed(self) -> bool:
        """Whether one ended without having been asked to."""
        return any(process.poll() not in (None, 0) for process in self._running)

    def stop(self) -> None:
        """Interrupts all and waits; their trials can go on later."""
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        try:
            for process in self._running:
                process.wait(_PATIENCE_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            for process in self._running:
                process.kill()
        self.close()

    def close(self) -> None:
        """Waits for the end of all."""
        for process in self._running:
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
            process.wait()


def _start(place: Place, log: Path, jobs: int) -> subprocess.Popen[str]:
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**_environment(jobs), **os.environ},
            text=True,
            # Control-C in a terminal reaches this process alone, which passes it on once.
            start_new_session=True,
        )
    if process.stdin is not None:
        # Not on the command line, which anybody on the machine can read: it may hold a password.
        process.stdin.write(json.dumps(place_to_json(place)) + "\n")
        process.stdin.flush()
    return process


def _environment(jobs: int) -> Mapping[str, str]:
    """Processes beside each other share the cores."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    if jobs == 1:
        return quiet
    cores = str(max(1, (os.cpu_count() or 1) // jobs))
    return {**quiet, "TF_NUM_INTRAOP_THREADS": cores, "OMP_NUM_THREADS": cores}
