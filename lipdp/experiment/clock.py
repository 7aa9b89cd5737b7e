"""How long a run took, in all its sessions together."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import keras

from lipdp.errors import InvalidData


class Clock:
    """Counts the seconds of a run from now on, after those that earlier sessions left in a file.

    Args:
        path: The file, in the folder of the unfinished run.
        anew: Whether the file there is that of another run.

    Raises:
        InvalidData: If the file is damaged.
    """

    def __init__(self, path: Path, *, anew: bool = False) -> None:
        self._path = path
        self._started = time.monotonic()
        self._earlier = _read(path) if path.exists() and not anew else 0.0

    @property
    def seconds(self) -> float:
        """Of this session and all before."""
        return self._earlier + time.monotonic() - self._started

    def keep(self) -> None:
        """Writes the seconds so far for a later session, if the run has a folder by now."""
        if not self._path.parent.is_dir():
            return
        fresh = self._path.with_name(f"{self._path.name}.tmp")
        fresh.write_text(json.dumps(self.seconds), encoding="utf-8")
        fresh.replace(self._path)


class ClockCallback(keras.callbacks.Callback):
    """Keeps the seconds of the run, so that a kill loses those of one epoch at most."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Keeps what the preparation took."""
        self._clock.keep()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keeps the seconds so far."""
        self._clock.keep()


def _read(path: Path) -> float:
    try:
        seconds = float(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise _damaged(path, error) from error
    if not 0.0 <= seconds < math.inf:
        raise _damaged(path, seconds)
    return seconds


def _damaged(path: Path, found: object) -> InvalidData:
    return InvalidData(
        f"The seconds of an unfinished run cannot be read ({found!r})",
        received=str(path),
        fix="Delete this file: the time of the earlier sessions is then missing from the result",
    )
