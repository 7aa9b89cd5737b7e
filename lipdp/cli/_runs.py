"""Options and paths that the commands around a run share."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


def override(key: str, value: object) -> str:
    """An override that no character of the value can break: JSON text is TOML text, but for DEL."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{key}={text}"


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
