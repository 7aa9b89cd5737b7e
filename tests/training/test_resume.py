"""A training that is killed and resumed never reports less than what ran."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_runs.py")
ROOT = SCRIPT.parents[2]


def kills(*points):
    return [{"at": at, "number": number} for at, number in points]


#: By file or beside a backup, with a batch in parts, and backups between epochs.
QUICK = {
    "backup": {
        "kills": kills(
            ("after step", 6), ("ledger text", 3), ("weights saved", 3), ("backup removed", 1)
        ),
        "save_freq": 3,
    },
    "file": {
        "kills": kills(("before replace", 4), ("on_train_batch_end", 5)),
        "ledger_file": True,
        "micro_batch_size": 60,
        "parts": 2,
    },
    # 17 steps keep within this epsilon; these ran, and not all of them reached the backup.
    "exhausted": {
        "kills": kills(("after step", 10), ("after step", 7)),
        "epsilon": 7.6,
        "refused": True,
    },
}
MANY = {
    "hooks": {
        "kills": kills(
            ("on_train_batch_begin", 3),
            ("on_epoch_end", 1),
            ("on_epoch_begin", 2),
            ("on_train_batch_end", 6),
            ("backup begins", 1),
        )
    },
    "writes": {
        "kills": kills(
            ("before fsync", 5),
            ("after fsync", 6),
            ("before replace", 1),
            ("after replace", 3),
            ("ledger text", 1),
        ),
        "ledger_file": True,
    },
    "saves": {
        "kills": kills(
            ("weights saved", 1),
            ("weights saved", 4),
            ("backup begins", 3),
            ("before step", 4),
            ("backup removed", 1),
        ),
        "save_freq": 3,
    },
    "parts": {
        "kills": kills(("before step", 3), ("after step", 5), ("time", 5), ("on_epoch_end", 1)),
        "micro_batch_size": 60,
        "parts": 2,
    },
    "times": {"kills": kills(*(("time", seed) for seed in range(4)))},
    "times and a file": {
        "kills": kills(*(("time", seed) for seed in range(4, 8))),
        "ledger_file": True,
        "save_freq": 2,
    },
}


def play(scenarios, folder):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        input=json.dumps(scenarios),
        env={**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


def check(scenario, seen, errors):
    *killed, end = seen["runs"]
    last = seen["last"]
    # One that missed its moment ran to its end, which is fine for a moment drawn by chance.
    reached = [run["killed"] or run["at"]["at"] == "time" for run in killed]
    assert all(reached), (killed, errors[-3000:])
    assert end["code"] == 0 and last is not None, errors[-3000:]
    # A step that ran was recorded, and each kill costs at most one that did not run.
    assert seen["ran"] <= last["steps"] <= seen["ran"] + len(killed)
    assert last["epsilon"] <= scenario.get("epsilon", float("inf"))
    assert last["finite"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenarios",
    [pytest.param(QUICK, id="few"), pytest.param(MANY, id="many")],
)
def test_what_ran_is_in_the_ledger(scenarios, tmp_path):
    """Complete or refused, and then with the weights of the last backup."""
    seen, errors = play(scenarios, tmp_path)
    for name, scenario in scenarios.items():
        check(scenario, seen[name], errors)
        if scenario.get("refused"):
            assert "larger epsilon" in seen[name]["last"]["refusal"]
            continue
        assert seen[name]["last"]["refusal"] is None
        # The backup of a complete training is gone, and a ledger that was asked for is not.
        kept = ["ledger.json", "ledger.json.lock"] if scenario.get("ledger_file") else []
        assert seen[name]["left"] == kept
