"""Options and paths that the commands around a run share."""

from __future__ import annotations

import json
import os
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
    """An override that no character of the value can break: JSON text is TOML text."""
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def quiet_backend() -> None:
    """Keeps the backend's start-up chatter off the terminal, unless the user set a level."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
