"""DP-SGD by tensorflow-privacy, in the environment that has it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PRESENT = all(importlib.util.find_spec(name) for name in ("tensorflow_privacy", "tf_keras"))

needs_tf_privacy = pytest.mark.skipif(
    not PRESENT, reason="tensorflow-privacy is not installed (pip install lipdp[tf-privacy])"
)


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def own_data(config):
    files = {"path": config.data.path, "schema_path": config.data.schema_path}
    return {f"data.{key}": value for key, value in {"name": "", "target": "y", **files}.items()}


@needs_tf_privacy
@pytest.mark.slow
def test_no_rows_stay_on_disk_however_it_ends(make_config, tmp_path):
    options = {**own_data(make_config()), "training.epochs": "2000", "privacy.delta": "1e-4"}
    options["training.batch_size"] = "80"
    sets = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    place = tmp_path / "temporary"
    place.mkdir()
    command = ["-m", "lipdp", "train", "--method", "dp-sgd", "--output", tmp_path / "out", *sets]
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if line.startswith("epoch "):
            break
    process.kill()
    process.wait()
    left = {path.name for path in place.glob("lipdp-*/*")}
    assert "request.json" in left and not any(name.endswith(".npy") for name in left)


@needs_tf_privacy
@pytest.mark.slow
def test_clipping_and_noise_are_what_they_should_be():
    done = python(Path(__file__).with_name("dp_sgd_checks.py"), TF_USE_LEGACY_KERAS="1")
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 8


@needs_tf_privacy
@pytest.mark.slow
def test_a_network_trains_and_its_run_is_whole(make_config, tmp_path):
    config = make_config()
    options = {
        **own_data(config),
        "model.widths": "[8]",
        "model.bias_radius": "1.0",
        "privacy.delta": "1e-4",
        "privacy.seed": "1",
        "training.batch_size": "80",
        "training.epochs": "12",
        "training.micro_batch_size": "50",
        "dp_sgd.activation": "relu",
    }
    sets = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    out = tmp_path / "out"
    command = ["-m", "lipdp", "train", "--method", "dp-sgd", "--epsilon", "20", "--output", out]
    done = python(*command, *sets)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((out / "result.json").read_text())
    assert result["method"] == "dp-sgd"
    assert 19.5 < result["spent"]["epsilon"] <= 20
    assert result["statement"].startswith("NOT PRIVATE")  # because of the seed
    assert result["test"]["accuracy"] > result["test"]["majority_accuracy"] + 0.1
    assert result["certified"][0]["accuracy"] > 0.05
    assert [v["variable"] for v in result["plan"]["variables"]] == ["kernel", "bias", "kernel"]
    assert len((out / "history.csv").read_text().splitlines()) == 13
    predicted = python("-m", "lipdp", "predict", out, "--data", config.data.path, "-o", out / "p")
    assert predicted.returncode == 0, predicted.stderr
