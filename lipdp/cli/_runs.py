"""Options and paths that the commands around a run share."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


def overrides_option(function: Any) -> Any:
    """The option ``--set key=value``, repeatable."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one key of the configuration, as in training.epochs=30; may be repeated.",
    )(function)


def data_options(function: Any) -> Any:
    """The options ``--data-dir`` and ``--limit-rows``; see ``data_values``."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    for option in (
        click.option(
            "--limit-rows",
            type=int,
            metavar="N",
            help="Take so many rows (of a table the first), of which some test, for a quick try; of"
            " a set with test rows of its own, so many training rows.",
        ),
        click.option(
            "--data-dir",
            type=folder,
            help="Folder that holds registered data sets, so that none is downloaded.",
        ),
    ):
        function = option(function)
    return function


def data_values(data_dir: Path | None, limit_rows: int | None) -> dict[str, object]:
    """What ``data_options`` change of a configuration."""
    return given({"data.dir": data_dir, "data.limit_rows": limit_rows})


def given(values: Mapping[str, object]) -> dict[str, object]:
    """The values of a configuration that are not None; it holds paths as text."""
    return {
        key: str(value) if isinstance(value, Path) else value
        for key, value in values.items()
        if value is not None
    }


@contextmanager
def quiet_start() -> Iterator[None]:
    """Keeps the backend's start-up chatter off the terminal, unless the user set a level.

    TensorFlow writes some of it to file descriptor 2 before it reads TF_CPP_MIN_LOG_LEVEL, so the
    descriptor is turned away too. An exception passes, and is shown afterwards. Later it logs
    remarks on models that are made one after the other.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") != "3":
        yield
        return
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
