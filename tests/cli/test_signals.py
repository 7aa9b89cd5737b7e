"""Real signals to real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lipdp
from tests.small_table import write_table

ROOT = Path(lipdp.__file__).parent.parent
LOOP = """
import time
from lipdp.cli._progress import SignalStopper
with SignalStopper() as stopper, stopper.watching():
    print("ready", flush=True)
    for step in range(10_000):
        time.sleep(0.01)
        if stopper.wanted:
            print("whole step", flush=True)
            {then}
"""


def start(*arguments, cwd=None):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process, words):
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(process.communicate()[1])


def test_the_first_signal_waits_for_the_step():
    process = start("-c", LOOP.format(then="break"))
    wait_for(process, "ready")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("whole step\n", 0)
    assert "Once more stops at once" in err


def test_the_second_signal_does_not():
    process = start("-c", LOOP.format(then="time.sleep(60)"))
    wait_for(process, "ready")
    process.send_signal(signal.SIGINT)
    wait_for(process, "whole step")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in err


@pytest.fixture
def folder(tmp_path):
    return write_table(tmp_path, 2000)


def train(folder):
    options = ["--data", "t.csv", "--schema", "t.toml", "--target", "y", "--epsilon", 8]
    sizes = ["--set", "training.epochs=20", "--set", "training.batch_size=40"]
    process = start("-m", "lipdp", "train", *options, *sizes, "--output", "run", cwd=folder)
    wait_for(process, "epoch  2/20")
    return process


def go_on(folder):
    process = start("-m", "lipdp", "train", "--resume", "run", "--json", cwd=folder)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def ledger_on_disk(folder):
    from lipdp.privacy import PrivacyLedger

    path = folder / ".run.unfinished" / "backup.privacy_ledger.json"
    return PrivacyLedger.from_json(path.read_text()).steps


def check_spent(result):
    """The budget is spent to its end, lost steps too; it may afford one more than planned."""
    assert result["spent"]["steps"] in (800, 801) and not result["interrupted"]
    assert 7.9 < result["spent"]["epsilon"] <= 8.0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_training_that_is_interrupted_goes_on(folder, number, code):
    process = train(folder)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert "lipdp train --resume run" in err and "Traceback" not in err
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["interrupted"] and 80 < result["spent"]["steps"] < 800
    assert result["spent"]["steps"] == ledger_on_disk(folder)
    assert (folder / "run" / "model.keras").is_file()
    check_spent(go_on(folder))


@pytest.mark.slow
def test_a_training_that_is_killed_counts_the_steps_that_are_lost(folder):
    process = train(folder)
    # Steps of an epoch that no backup holds yet.
    while ledger_on_disk(folder) % 40 < 10:
        time.sleep(0.02)
    process.kill()
    process.wait()
    spent = ledger_on_disk(folder)
    assert spent % 40 and not (folder / "run").exists()
    check_spent(go_on(folder))
