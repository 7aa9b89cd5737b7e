"""Runs with ledgers, as they lie on disk."""

from __future__ import annotations

import json

from lipdp._version import __version__
from lipdp.privacy import PrivacyLedger
from lipdp.results import RunResult

BOOK = PrivacyLedger()
BOOK.record(0.01, 1.0, 1000)


def spent(steps=1000):
    """The first 1000 steps are the same ones in all."""
    book = PrivacyLedger.from_json(BOOK.to_json()) if steps >= 1000 else PrivacyLedger()
    book.record(0.01, 1.0, steps % 1000)
    return book


def save(folder, fields, *, epsilon=None, versions=None, **top):
    """A run with a ledger, and an epsilon that may be another one."""
    whole = {**fields, **top, "versions": versions or {"lipdp": "0.0.1"}}
    found = spent().epsilon(1e-5) if epsilon is None else epsilon
    whole["spent"] = {**fields["spent"], "epsilon": found, "ledger": spent().to_json()}
    folder.mkdir(parents=True, exist_ok=True)
    RunResult.model_validate(whole).save(folder / "result.json")


def leave(output, config, steps):
    """What an interrupted run leaves beside its folder."""
    folder = output.with_name(f".{output.name}.unfinished")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"lipdp": __version__, "config": config}))
    if steps:
        (folder / "backup.privacy_ledger.json").write_text(spent(steps).to_json())
