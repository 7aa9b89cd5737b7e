"""``lipdp compare`` as a person runs it: interrupted, repeated, reported, added up."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lipdp
from lipdp.privacy import PrivacyLedger, composed
from lipdp.results import RunResult
from tests.small_table import write_table

pytestmark = pytest.mark.slow

DATA = {"name": "", "path": "t.csv", "schema_path": "t.toml", "target": "y"}
SETTINGS = [f"data.{key}={value}" for key, value in DATA.items()]
SETTINGS += ["training.epochs=3", "training.batch_size=50", "privacy.delta=1e-4"]
COMPARE = ["compare", "--epsilons", "1", "3", "--seeds", "1", "-o", "out"]
COMPARE += [word for setting in SETTINGS for word in ("--set", setting)]
PRIVATE = [f"{method}-epsilon{e}-seed0" for method in ("clipless", "dp-sgd") for e in (1, 3)]


@pytest.fixture
def folder(tmp_path):
    return write_table(tmp_path)


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "lipdp", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(lipdp.__file__).parent.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(folder):
    process = start(folder, *COMPARE)
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err[-3000:]
    return out


def interrupted(folder):
    """The runs that a comparison has finished when it is stopped inside the second one."""
    process = start(folder, *COMPARE)
    for line in process.stdout:
        if line.startswith("clipless-epsilon3-seed0: run 2 of 5"):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130 and "The same command goes on" in err, err
    return [path.parent.name for path in (folder / "out").glob("*/result.json")]


def test_it_is_interrupted_goes_on_and_is_reported(folder, run):
    assert interrupted(folder) == ["clipless-epsilon1-seed0"]
    said = finished(folder)
    assert "1 of 5 runs are finished already" in said and "epoch 3/3" in said
    results = {name: RunResult.load(folder / "out" / name / "result.json") for name in PRIVATE}
    for name, result in results.items():
        assert result.spent.epsilon <= float(name.split("-epsilon")[1].split("-")[0])
        assert result.spent.steps > 0 and not result.interrupted
    assert not list((folder / "out").glob(".*"))

    run("report", "out", "-o", "all.html")
    (section,) = json.loads((folder / "all.json").read_text())["sections"]
    assert [cell["epsilon"] for cell in section["cells"]] == [1.0, 1.0, 3.0, 3.0]
    assert len(section["references"]) == 1
    ledgers = [PrivacyLedger.from_json(one.spent.ledger) for one in results.values()]
    told = json.loads(run("account", "runs", *(f"out/{n}" for n in PRIVATE), "--json").stdout)
    assert told["epsilon"] == composed(ledgers, 1e-4).epsilon
    assert section["privacy"]["together"]["epsilon"] == told["epsilon"]

    # A trial that failed lies where the reports of all runs look.
    (folder / "out" / "failed").mkdir()
    more = [*(f"out/{n}" for n in PRIVATE), "out/failed", "--json"]
    failed = PrivacyLedger()
    failed.record(0.2, 1.0, steps=9)
    (folder / "out" / "failed" / "privacy_ledger.json").write_text(failed.to_json())
    assert json.loads(run("account", "runs", *more).stdout)["epsilon"] > told["epsilon"]
    # The same accesses in a second folder were spent once.
    (folder / "out" / "failed" / "privacy_ledger.json").write_text(ledgers[0].to_json())
    assert json.loads(run("account", "runs", *more).stdout)["epsilon"] == told["epsilon"]
