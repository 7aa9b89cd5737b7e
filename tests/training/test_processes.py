"""Private training in two processes of this machine, which have two devices each."""

import fcntl
import importlib.util
import os
import pickle
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("process_checks.py")
ROOT = Path(__file__).parent.parent.parent
CHECKS = ("see_noise", "see_training", "see_rows", "see_ledger", "see_refusals")

pytestmark = pytest.mark.backend


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """``seen(check)``: what each process saw; they run once, whoever asks."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    folder = shared_folder(tmp_path_factory)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            run_checks(folder)
            (folder / "done").touch()
    return lambda check: [pickle.loads((folder / f"{check}.{n}").read_bytes()) for n in range(2)]


def shared_folder(tmp_path_factory):
    """Of all workers of one run of tests, if there are several."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return tmp_path_factory.mktemp("processes")
    folder = tmp_path_factory.getbasetemp().parent / f"processes-{run}"
    folder.mkdir(exist_ok=True)
    return folder


def run_checks(folder):
    """Both processes write what they see into a folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(SCRIPT.parent)]),
    }
    running = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(number), port, str(folder), *CHECKS],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=(folder / f"log.{number}").open("w"),
        )
        for number in range(2)
    ]
    try:
        codes = ended(running)
    finally:
        for one in running:
            one.kill()
    if any(codes):
        logs = [(folder / f"log.{number}").read_text()[-3000:] for number in range(2)]
        pytest.fail("\n\n".join(logs))


def ended(running, seconds=800):
    """The exit codes; whoever waits for one that failed would wait for minutes."""
    for _ in range(seconds * 2):
        codes = [one.poll() for one in running]
        if None not in codes or any(codes):
            return codes
        time.sleep(0.5)
    return codes


def test_the_noise_is_added_once_a_step(seen):
    """Noise of each process would show as a factor of 1.41, added twice as 2, halved as 0.5."""
    one, other = seen("see_noise")
    assert one == other
    # Five sigma of two million normals; of the few of the run in parts likewise.
    assert all(abs(scale - 1) < 0.0025 for scale in one["scales"])
    assert all(abs(scale - 1) < 5 / np.sqrt(2 * 30_000) for scale in one["in parts"])
    assert all(abs(mean) < 1 for mean in one["means"])
    assert one["alike"] < 5 / np.sqrt(2e6)


def test_the_weights_are_the_same(seen):
    for found in seen("see_noise"):
        assert found["weights"] == 1
    one, other = seen("see_training")
    for name in one:
        for a, b in zip(one[name][0][0], other[name][0][0], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["adam", "adaptive"])
def test_without_noise_they_train_as_one_process(seen, name):
    for found in seen("see_training"):
        (_, logs, together), (_, other_logs, alone) = found[name]
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a, b, atol=5e-6)
        for log in ("accuracy", "val_loss", "val_accuracy"):
            np.testing.assert_allclose(logs[log], other_logs[log], atol=2e-6)


def test_each_row_is_read_by_one_process(seen):
    one, other = seen("see_rows")
    for name in one:
        for a, b in zip(one[name], other[name], strict=True):
            assert len({*a, *b}) == len(a) + len(b)
    steps = [[*a, *b] for a, b in zip(one["shuffled"], other["shuffled"], strict=True)]
    for epoch in range(4):
        rows = np.concatenate(steps[epoch * 10 : (epoch + 1) * 10])
        assert sorted(rows.tolist()) == list(range(300))
    for a, b in zip(one["groups"], other["groups"], strict=True):
        assert len(a) + len(b) == 10
        assert set(np.bincount(np.array([*a, *b]) // 6)) <= {0, 2}


def test_draws_are_poisson(seen):
    """40 draws of 30 expected rows out of 300: counts within five sigma, rows of all places."""
    one, other = seen("see_rows")
    steps = [[*a, *b] for a, b in zip(one["poisson"], other["poisson"], strict=True)]
    sizes = [len(step) for step in steps]
    assert abs(sum(sizes) - 1200) < 5 * np.sqrt(1200 * 0.9)
    assert np.std(sizes) > 2 and len({tuple(sorted(step)) for step in steps}) == 40
    counts = np.bincount(np.concatenate(steps), minlength=300)
    assert abs(counts.var() / (40 * 0.1 * 0.9) - 1) < 0.5


def test_the_first_process_keeps_the_ledger(seen):
    """Two epochs of four steps, then one more of a new model, which goes on from the file."""
    one, other = seen("see_ledger")
    assert one["writes"] == [1, 2, 3] and other["writes"] == []
    assert one["weights"] == other["weights"]
    for found in (one, other):
        assert found["steps"] == [2, 3, 3]
        assert "network between the processes" in found["statement"]


def test_a_ledger_file_that_one_process_has_is_refused(seen):
    for found in seen("see_ledger"):
        assert "ledger differ" in found["refused"]


def test_what_differs_is_refused(seen):
    for found in seen("see_refusals"):
        for words, text in found.items():
            assert words.split(": ")[-1] in text, words
