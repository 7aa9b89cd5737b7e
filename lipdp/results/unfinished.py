"""Where an interrupted run keeps what it needs to go on, for whoever adds up what runs spent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lipdp.errors import InvalidData
from lipdp.results.run import RunResult

CONFIG_FILE = "config.json"
LEDGER_FILE = "backup.privacy_ledger.json"
#: The model before its first step. From when it is there, the ledger is there too.
MODEL_FILE = "start.keras"
#: The backup of Keras.
BACKUP_FOLDER = "backup"
#: What a trial that failed spent, in its own folder, where there is no result.
FAILED_LEDGER = "privacy_ledger.json"
#: Settings that are paths, which are whole in the folder and may be relative elsewhere.
PATHS = (
    ("data", "path"),
    ("data", "schema_path"),
    ("data", "dir"),
    ("data", "labels"),
    ("features", "path"),
    ("training", "tensorboard"),
)
_BEFORE, _AFTER = ".", ".unfinished"


def unfinished_folder(output: Path) -> Path:
    """The hidden folder beside a run's own."""
    whole = Path(os.path.abspath(output))
    return whole.with_name(f"{_BEFORE}{whole.name}{_AFTER}")


def ledger_is_missing(output: Path) -> bool:
    """Whether an unfinished run lies here that may have spent, and its ledger does not."""
    folder = unfinished_folder(output)
    begun = (folder / MODEL_FILE).is_file() or (folder / BACKUP_FOLDER).is_dir()
    return begun and not (folder / LEDGER_FILE).exists()


def unfinished_inside(folder: Path) -> list[Path]:
    """The own folders, there or not, of unfinished runs that lie directly inside a folder."""
    found = sorted(path.name for path in folder.glob(f"{_BEFORE}?*{_AFTER}") if path.is_dir())
    return [folder / name[len(_BEFORE) : -len(_AFTER)] for name in found]


def unfinished_settings(output: Path) -> dict[str, Any]:
    """The configuration of an unfinished run, whatever version began it.

    Raises:
        InvalidData: If there is none, or it is damaged.
    """
    path = unfinished_folder(output) / CONFIG_FILE
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidData(
            f"The settings of an unfinished run cannot be read ({error!r})",
            received=str(path),
            fix="Restore the file from a copy; what the run spent is in the ledger beside it",
        ) from error


def is_begun_by(result: RunResult, settings: dict[str, Any]) -> bool:
    """Whether a result is that of an unfinished run with these settings, stopped on its way.

    Then one ledger goes on with the other; otherwise they count different runs.
    """
    return result.interrupted and _with_names(result.config) == _with_names(settings)


def _with_names(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without the folders of their paths, which depend on where the run was started."""
    plain = {key: dict(body) if isinstance(body, dict) else body for key, body in settings.items()}
    for section, key in PATHS:
        body = plain.get(section)
        if isinstance(body, dict) and body.get(key) is not None:
            body[key] = Path(str(body[key])).name
    return plain
