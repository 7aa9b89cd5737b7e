"""The commands as a person runs them, each in a process of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pandas as pd
import pytest

import lipdp

SCHEMA = """
target = "income"
classes = ["low", "high"]

[columns.age]
kind = "number"
range = [18, 90]

[columns.job]
kind = "category"
categories = ["clerk", "smith", "none"]
"""
FAST = ["--set", "training.epochs=2", "--set", "training.batch_size=100"]


def cli(*arguments, cwd=None, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "lipdp", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(lipdp.__file__).parent.parent)},
    )
    assert done.returncode == code, done.stderr[-2000:] + done.stdout[-2000:]
    assert "Traceback" not in done.stderr
    return done


def write_own_data(folder):
    """A person's own small table: my.csv (600 rows) and my.toml."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 600)
    job = rng.choice(["clerk", "smith", "none"], 600)
    income = np.where((age > 45) & (job != "none"), "high", "low")
    frame = pd.DataFrame({"age": age, "job": job, "income": income})
    frame.to_csv(folder / "my.csv", index=False)
    (folder / "my.toml").write_text(SCHEMA)
    return folder


@pytest.fixture
def own_data(tmp_path):
    return write_own_data(tmp_path)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = write_own_data(tmp_path_factory.mktemp("own"))
    options = ["--data", "my.csv", "--schema", "my.toml", "--target", "income"]
    done = cli("train", *options, "--epsilon", 8, "--output", "out", *FAST, cwd=folder)
    return folder, done


@pytest.fixture
def own_run(finished_run, tmp_path):
    """A copy of a folder with data and a finished run, and what the command printed."""
    shutil.copytree(finished_run[0], tmp_path / "copy")
    return tmp_path / "copy", finished_run[1]


def test_own_csv_leaves_a_whole_run(own_run):
    folder, done = own_run
    result = json.loads((folder / "out" / "result.json").read_text())
    assert result["spent"]["epsilon"] <= 8.0
    assert result["spent"]["delta"] == 1e-5
    assert 0 <= result["test"]["accuracy"] <= 1 and 0 <= result["test"]["auroc"] <= 1
    assert [c["radius"] for c in result["certified"]] == [0.025, 0.05, 0.1]
    assert all(c["accuracy"] <= result["test"]["accuracy"] for c in result["certified"])
    assert "(8" not in result["statement"] and "held-out" in result["statement"]
    history = pd.read_csv(folder / "out" / "history.csv")
    assert len(history) == 2
    # Nothing exact from training rows.
    assert set(history.columns) <= {
        "epoch",
        "epsilon",
        "val_loss",
        "val_accuracy",
        "val_certified_accuracy",
    }
    assert "logistic" not in (folder / "out" / "result.json").read_text()
    assert "logistic regression" in done.stdout and "not private" in done.stdout
    assert not list(folder.glob(".out*"))
    for name in ("model.keras", "report.html", "config.toml", "schema.toml"):
        assert (folder / "out" / name).is_file()


@pytest.mark.slow
def test_predict_bounds_and_reproduction_of_a_run(own_run):
    folder, _ = own_run
    new = pd.read_csv(folder / "my.csv").drop(columns="income").head(7)
    new.to_csv(folder / "new.csv", index=False)
    cli("predict", "out", "--data", "new.csv", "-o", "pred.csv", cwd=folder)
    predicted = pd.read_csv(folder / "pred.csv")
    assert len(predicted) == 7
    assert set(predicted["prediction"]) <= {"low", "high"}
    assert (predicted["certified_radius"] >= 0).all()
    signs = predicted["score"] > 0
    assert (signs == (predicted["prediction"] == "high")).all()
    table = json.loads(cli("bounds", "out", "--json", cwd=folder).stdout)
    noisy = [row for row in table if row["noise_stddev"] is not None]
    assert len(noisy) == 1 and noisy[0]["bound"] > 0 and noisy[0]["noise_stddev"] > 0
    cli("train", "out/config.toml", "--output", "again", cwd=folder)
    first, again = (json.loads((folder / n / "result.json").read_text()) for n in ("out", "again"))
    assert first["plan"]["noise_multiplier"] == again["plan"]["noise_multiplier"]


def test_the_saved_model_holds_no_optimizer(own_run):
    folder, _ = own_run
    model = lipdp.load_model(folder / "out" / "model.keras")
    with zipfile.ZipFile(folder / "out" / "model.keras") as archive:
        archive.extract("model.weights.h5", folder)
    names = []
    with h5py.File(folder / "model.weights.h5") as file:
        file.visit(names.append)
    assert names and not any("optimizer" in name for name in names)
    assert model.ledger.steps == 10
    assert model.ledger.epsilon(1e-5) <= 8.0


@pytest.mark.slow
def test_a_full_folder_is_kept_unless_told(own_run):
    folder, _ = own_run
    before = (folder / "out" / "result.json").read_bytes()
    options = ["--data", "my.csv", "--schema", "my.toml", "--target", "income", *FAST]
    done = cli("train", *options, "--epsilon", 8, "--output", "out", cwd=folder, code=2)
    assert "--overwrite" in done.stderr
    assert (folder / "out" / "result.json").read_bytes() == before
    cli("train", *options, "--epsilon", 8, "--output", "out", "--overwrite", cwd=folder)
    assert (folder / "out" / "result.json").read_bytes() != before


@pytest.mark.slow
def test_a_schema_to_fill_in_round(own_data):
    done = cli("schema", "my.csv", "--target", "income", cwd=own_data)
    (own_data / "blank.toml").write_text(done.stdout)
    options = ["--data", "my.csv", "--schema", "blank.toml", "--target", "income"]
    refused = cli("train", *options, "--epsilon", 8, "--output", "o", cwd=own_data, code=2)
    assert re.search("range|classes|categories", refused.stderr)
    missing = cli("train", "--data", "my.csv", "--epsilon", 8, cwd=own_data, code=2)
    assert "lipdp schema my.csv" in missing.stderr


def test_training_in_this_process_with_an_mlp(own_data):
    from lipdp.config import load_config
    from lipdp.run import bounds_table, train

    overrides = [
        "data.name=",
        f"data.path={own_data / 'my.csv'}", f"data.schema_path={own_data / 'my.toml'}",
        "model.name=mlp", "model.widths=[16,8]", "privacy.epsilon=", "privacy.noise_multiplier=0.0",
        "training.batch_size=100", "training.epochs=1",
    ]  # fmt: skip
    outcome = train(load_config(None, overrides), own_data / "mlp")
    assert outcome.result.spent.epsilon == float("inf")
    saved = json.loads((own_data / "mlp" / "result.json").read_text())
    assert saved["spent"]["epsilon"] == "inf"
    assert saved["statement"].startswith("NOT PRIVATE")
    assert len(saved["plan"]["variables"]) == 3
    table = bounds_table(None, overrides)
    assert (table["noise_stddev"].dropna() == 0).all()
    assert "baseline" not in vars(outcome)  # nobody waits for what nobody asked for
    assert 0.5 < outcome.baseline["accuracy"] <= 1.0


@pytest.mark.slow
def test_a_configuration_with_wider_layers(tmp_path):
    config = Path(lipdp.__file__).parent.parent / "configs" / "adult.toml"
    options = ["--epsilon", 3, "--set", "model.widths=[128,128]", "--set", "training.epochs=2"]
    cli("train", config, *options, "--output", "wide", cwd=tmp_path)
    result = json.loads((tmp_path / "wide" / "result.json").read_text())
    assert [v["size"] for v in result["plan"]["variables"]] == [136 * 128, 128 * 128, 128]
    assert 2.97 <= result["spent"]["epsilon"] <= 3.0


@pytest.mark.slow
def test_the_readme_command_on_adult(tmp_path):
    """``lipdp train --epsilon 8``: the promise of the first page, within its budget and time."""
    done = cli("train", "--epsilon", 8, "--output", "run", cwd=tmp_path)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert 7.92 <= result["spent"]["epsilon"] <= 8.0
    assert result["seconds"] < 180
    # Split and first weights are fixed. Noise moves accuracy by 0.03 points around 85.8 and AUROC
    # by 0.0008 around 0.915 (standard deviations): six of them at least.
    assert result["test"]["accuracy"] > 0.85
    assert result["test"]["auroc"] > 0.91
    assert "epsilon 7.9" in done.stdout
    exported = lipdp.export(lipdp.load_model(tmp_path / "run" / "model.keras"))
    assert isinstance(exported, keras.Model)
