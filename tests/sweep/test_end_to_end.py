"""``lipdp sweep`` as a person runs it: several processes, interruptions, both kinds of choosing."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lipdp
from lipdp.config import load_config
from lipdp.privacy import PrivacyLedger, composed
from tests.small_table import write_table

pytestmark = pytest.mark.slow

SPACE = """
[sweep]
pruning = false
[sweep.space]
"optimizer.learning_rate" = { low = 0.1, high = 2.0, log = true }
"model.widths" = [[], [4]]
"training.batch_size" = [30, 60]
"""


@pytest.fixture
def folder(tmp_path):
    return write_table(tmp_path)


def command(folder, *arguments, epochs=2):
    files = {"name": "", "path": "t.csv", "schema_path": "t.toml", "target": "y"}
    changes = [f"data.{key}={value}" for key, value in files.items()]
    changes += [f"training.epochs={epochs}", "privacy.delta=1e-4"]
    sets = [word for change in changes for word in ("--set", change)]
    text = subprocess.run(
        [sys.executable, "-m", "lipdp", "config", "show", *sets],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (folder / "s.toml").write_text(text + SPACE)
    return [sys.executable, "-m", "lipdp", "sweep", "s.toml", *map(str, arguments)]


def environment():
    return {**os.environ, "PYTHONPATH": str(Path(lipdp.__file__).parent.parent)}


def sweep(folder, *arguments, epochs=2):
    done = subprocess.run(
        command(folder, *arguments, epochs=epochs),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    return done.stdout


def result_in(folder, name="s"):
    return json.loads((folder / "runs" / name / "sweep.json").read_text())


def check_costs(found):
    ledgers = [PrivacyLedger.from_json(t["ledger"]) for t in found["trials"] if t["ledger"]]
    cost = found["choosing"]
    assert cost["together"] == composed(ledgers, 1e-4).epsilon > cost["alone"]
    return cost


def test_two_processes_then_more_trials(folder):
    said = sweep(folder, "--trials", 3, "--jobs", 2)
    first = result_in(folder)
    assert said.count(" trial ") >= 3 and "all that were tried (3)" in said
    assert [t["state"] for t in first["trials"]] == ["finished"] * 3
    assert check_costs(first)["epsilon"] == first["choosing"]["together"]
    best = first["best"]
    assert best["value"] == max(t["value"] for t in first["trials"])
    # 300 rows, of which 60 test; 48 of the other 240 choose.
    assert best["test"]["rows"] == 60
    run = folder / "runs/s/trials" / best["run"]
    assert json.loads((run / "result.json").read_text())["test"]["rows"] == 48
    assert load_config(run / "config.toml").data.validation_fraction == 0.2
    assert "all that were tried (3)" in (folder / "runs/s/report.html").read_text()
    assert "among 3 trials" in (run / "guarantee.txt").read_text()

    again = sweep(folder, "--trials", 4)
    second = result_in(folder)
    assert "4/4  trial 3" in again and "trial 2 finished" not in again
    assert second["trials"][:3] == first["trials"]
    assert check_costs(second)["together"] > first["choosing"]["together"]
    assert len(list((folder / "runs/s/trials").glob("*/guarantee.txt"))) == 1


def test_two_commands_share_a_storage(folder):
    shared = ["--trials", 4, "--storage", f"sqlite:///{folder / 'shared.db'}", "--study", "both"]
    # All before the first begins: each writes the configuration anew.
    commands = [command(folder, *shared, "--output", f"runs/{n}") for n in ("first", "second")]
    both = [
        subprocess.Popen(
            words,
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for words in commands
    ]
    said = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    found = [result_in(folder, name) for name in ("first", "second")]
    # Locks are hidden.
    here = [
        [p.name for p in (folder / "runs" / n / "trials").glob("[!.]*")]
        for n in ("first", "second")
    ]
    assert sorted(here[0] + here[1]) == ["000", "001", "002", "003"] and all(here)
    # Whoever ended first does not know what the other was spending, and claims nothing.
    last = [one for one in found if one["choosing"]["final"]]
    assert last and not last[0]["choosing"]["unknown_trials"]
    assert last[0]["choosing"]["counted_trials"] == 4
    check_costs(last[0])
    for name, one in zip(("first", "second"), found, strict=True):
        claims = list((folder / "runs" / name / "trials").glob("*/guarantee.txt"))
        assert one["choosing"]["final"] or not claims


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_was_interrupted_goes_on(folder, how):
    words = command(folder, "--trials", 2, epochs=30)
    process = subprocess.Popen(words, cwd=folder, env=environment(), stderr=subprocess.PIPE)
    trials = folder / "runs/s/trials"
    ledger_file = trials / ".000.unfinished/backup.privacy_ledger.json"
    # The file is there before the first step is.
    wait_for(lambda: ledger_file.is_file() and steps_in(ledger_file) > 0)
    time.sleep(0.3)
    process.send_signal(how)
    _, stderr = process.communicate(timeout=90)
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    before = settled(ledger_file)
    assert 0 < before < 30 * 9
    if how == signal.SIGINT:
        assert b"The same command goes on" in stderr
        found = result_in(folder)
        assert not found["choosing"]["final"] and found["trials"][0]["state"] == "running"
        assert found["trials"][0]["steps"] == before

    sweep(folder, "--trials", 2, epochs=30)
    found = result_in(folder)
    assert [t["state"] for t in found["trials"]] == ["finished"] * 2
    # One trial was begun twice, and its ledger holds what both processes spent.
    assert found["trials"][0]["steps"] >= before
    check_costs(found)
    assert [p.name for p in trials.iterdir() if "unfinished" in p.name or "partial" in p.name] == []


def test_a_random_number_of_trials(folder):
    sweep(folder, "--random-trials", 1, "--output", "runs/r", "--set", "privacy.epsilon=1")
    found = result_in(folder, "r")
    # With mean 1 the geometric number is 1, and the best of one costs what one costs, by Renyi
    # divergences and the costliest of both batch sizes.
    assert len(found["trials"]) == 1 and len(found["trials"][0]["run"]) == 12
    cost = found["choosing"]
    assert cost["repeat"]["applies"] and cost["epsilon"] == cost["repeat"]["epsilon"]
    assert math.isfinite(cost["epsilon"]) and cost["epsilon"] >= cost["alone"]


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)


def steps_in(path):
    return PrivacyLedger.from_json(path.read_text()).steps


def settled(path):
    """The steps in a ledger file, once no process writes it any more."""
    steps = -1
    for _ in range(60):
        now = steps_in(path)
        if now == steps:
            return steps
        steps = now
        time.sleep(1.0)
    raise AssertionError("the worker outlives its parent")
