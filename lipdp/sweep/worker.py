"""A process that runs trials until there are none left."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
import uuid
from typing import TYPE_CHECKING, Any

from lipdp.sweep.claims import claim
from lipdp.sweep.study import Place, Settings, join_study
from lipdp.sweep.trial import Trainer, run_trial

if TYPE_CHECKING:
    import optuna


def work(study: optuna.Study, settings: Settings, place: Place, train: Trainer) -> None:
    """Runs trials until as many as wanted were begun by all workers together."""
    name = run_name if settings.mean is None else secret_name
    while (mine := claim(study, place.trials, place.folder, name)) is not None:
        try:
            run_trial(study, mine, settings, train)
        finally:
            mine.release()


def run_name(number: int) -> str:
    """The name of a trial's run."""
    return f"{number:03d}"


def secret_name(number: int) -> str:
    """A name that says nothing about how many trials there are."""
    return uuid.uuid4().hex[:12]


def _end_with_parent() -> None:
    """Standard input ends with the process at its other end; what is spent is on disk anyway."""
    sys.stdin.read()
    os._exit(1)


def _train(*given: Any, **options: Any) -> Any:
    import keras

    from lipdp.run import train

    try:
        return train(*given, **options)
    finally:
        keras.utils.clear_session()  # Or the graphs of all trials stay in memory.


def main() -> int:
    """Reads a ``Place`` from standard input, which stays open as long as the parent lives."""
    place = Place(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        study, settings = join_study(place)
        work(study, settings, place, _train)
    except KeyboardInterrupt:
        return 130
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
