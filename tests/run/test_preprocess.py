"""``lipdp train --preprocess``: one budget, one saved model, named wherever accesses are."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import lipdp
from lipdp.cli import COMMANDS
from lipdp.config import load_config
from lipdp.preprocessing import load_schema
from lipdp.run import bounds_table
from lipdp.run.preprocess import planned_ledger

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
OPTIONS = ["--data", "my.csv", "--schema", "my.toml", "--target", "income"]
FAST = ["--set", "training.epochs=2", "--set", "training.batch_size=100"]
KINDS = {
    "private-standardize": "private mean and scale of the features",
    "private-whiten": "private mean and covariance of the features",
}


def write_rows(folder):
    rng = np.random.default_rng(0)
    age, job = rng.integers(18, 90, 600), rng.choice(["clerk", "smith", "none"], 600)
    income = np.where((age > 45) & (job != "none"), "high", "low")
    pd.DataFrame({"age": age, "job": job, "income": income}).to_csv(folder / "my.csv", index=False)
    (folder / "my.toml").write_text(SCHEMA)


def run(*arguments, code=0):
    done = CliRunner().invoke(COMMANDS, [str(a) for a in arguments], prog_name="lipdp")
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.fixture(scope="module", params=KINDS)
def finished(request, tmp_path_factory):
    """A folder with a run of each kind, and the kind."""
    folder = tmp_path_factory.mktemp("own")
    write_rows(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        options = ["--epsilon", 2, "--preprocess", request.param, "--preprocess-share", 0.25]
        run("train", *OPTIONS, *options, *FAST, "--output", "out", "--quiet")
    return folder, request.param


def test_release_and_training_spend_one_budget(finished):
    folder, kind = finished
    result = json.loads((folder / "out" / "result.json").read_text())
    assert 1.97 <= result["spent"]["epsilon"] <= 2.0
    assert result["spent"]["steps"] == 10
    assert KINDS[kind] in " ".join(result["statement"].split())
    assert result["config"]["preprocess"]["share"] == 0.25
    report = (folder / "out" / "report.html").read_text()
    assert KINDS[kind] in report and kind in report


def test_the_saved_model_holds_the_layers_and_the_access(finished):
    folder, kind = finished
    model = lipdp.load_model(folder / "out" / "model.keras")
    (access,) = model.ledger.other_accesses
    assert access.startswith(KINDS[kind])
    assert model.ledger.epsilon(1e-5) <= 2.0
    names = [type(layer).__name__ for layer in model.layers]
    affine = "Rescaling" if kind == "private-standardize" else "Dense"
    assert names[:4] == ["BoundedInput", affine, "ActivationClip", "BoundedInput"]
    assert len(model.trainable_variables) == 1
    # The schema's constant is still one, in the last place.
    schema = load_schema(folder / "my.toml")
    rows = schema.encode(pd.read_csv(folder / "my.csv"))
    ones = np.asarray(model.layers[1](rows))[:, -1]
    assert np.ptp(ones) < 1e-6 and ones[0] > 0.1


def test_predict_takes_raw_rows(finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir(folder)
    run("predict", "out", "--data", "my.csv", "-o", "pred.csv", "--overwrite")
    found = pd.read_csv("pred.csv")
    encoded = load_schema(folder / "my.toml").encode(pd.read_csv("my.csv"))
    model = lipdp.load_model(folder / "out" / "model.keras")
    certificates = lipdp.certify(model, encoded)
    np.testing.assert_allclose(found["score"], certificates.logits[:, 0], rtol=1e-9)
    np.testing.assert_allclose(found["certified_radius"], certificates.radii, rtol=1e-9)


@pytest.mark.slow
def test_a_run_is_repeated_from_its_configuration(finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir(folder)
    run("train", "out/config.toml", "--output", "again", "--quiet", "--overwrite")
    first, again = (json.loads((folder / n / "result.json").read_text()) for n in ("out", "again"))
    assert first["plan"]["noise_multiplier"] == again["plan"]["noise_multiplier"]
    assert first["config"]["preprocess"] == again["config"]["preprocess"]


def test_bounds_of_a_run_and_of_its_configuration_agree(finished):
    folder, _ = finished
    trained = bounds_table(folder / "out")
    planned = bounds_table(folder / "out" / "config.toml")
    assert len(trained) == len(planned) + 3
    noise = [t["noise_stddev"].dropna().to_numpy() for t in (trained, planned)]
    np.testing.assert_allclose(noise[0], noise[1], rtol=1e-5)
    plain = bounds_table(folder / "out" / "config.toml", ["preprocess.kind=none"])
    assert plain["noise_stddev"].dropna().item() < 0.99 * noise[1].item()


def test_the_planned_cost_needs_no_rows():
    config = load_config(None, ["preprocess.kind=private-whiten", "preprocess.share=0.2"])
    ledger = planned_ledger(config, 26049)
    assert 1.58 <= ledger.epsilon(1e-5) <= 1.6
    assert ledger.steps == 0
    assert planned_ledger(load_config(None), 26049).phases == ()


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        (["--preprocess-share", "0"], "preprocess.share"),
        (["--preprocess-share", "1"], "preprocess.share"),
        (["--preprocess-share", "-0.1"], "preprocess.share"),
        (["--preprocess-share", "nan"], "preprocess.share"),
        (["--preprocess-share", "much"], "much"),
        (["--preprocess", "whiten"], "private-whiten"),
        (["--preprocess", "private-whiten-maps"], "needs maps"),
        (["--set", "preprocess.kind=whiten"], "private-whiten"),
        (["--set", "preprocess.radius=0"], "preprocess.radius"),
        (["--set", "preprocess.noise_multiplier=-1"], "preprocess.noise_multiplier"),
        (["--set", "preprocess.scale=1"], "preprocess.scale"),
        (["--set", "privacy.epsilon=", "--noise-multiplier", "1"], "statistics"),
    ],
)
def test_bad_input_ends_with_two_and_leaves_nothing(tmp_path, monkeypatch, extra, word):
    write_rows(tmp_path)
    monkeypatch.chdir(tmp_path)
    options = ["--epsilon", "2", "--preprocess", "private-whiten", "--output", "out"]
    assert word in run("train", *OPTIONS, *options, *FAST, *extra, code=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["my.csv", "my.toml"]


def test_a_noise_multiplier_for_both_needs_no_epsilon(tmp_path, monkeypatch):
    write_rows(tmp_path)
    monkeypatch.chdir(tmp_path)
    noise = ["--noise-multiplier", 1, "--set", "preprocess.noise_multiplier=3.0"]
    options = [*OPTIONS, *FAST, "--preprocess", "private-standardize", "--output", "out"]
    run("train", *options, *noise, "--quiet")
    (access,) = lipdp.load_model(tmp_path / "out" / "model.keras").ledger.other_accesses
    assert "noise multiplier 3," in access


@pytest.mark.slow
def test_users_are_the_unit_of_the_statistics_too(tmp_path, monkeypatch):
    write_rows(tmp_path)
    monkeypatch.chdir(tmp_path)
    table = pd.read_csv("my.csv")
    table["user"] = np.arange(len(table)) // 2
    table.to_csv("my.csv", index=False)
    users = ["--set", "data.group=user", "--set", "data.max_examples_per_user=2"]
    options = [*OPTIONS, *FAST, *users, "--epsilon", 2, "--delta", "1e-4"]
    run("train", *options, "--preprocess", "private-whiten", "--output", "out", "--quiet")
    ledger = lipdp.load_model(tmp_path / "out" / "model.keras").ledger
    assert 1.97 <= ledger.epsilon(1e-4) <= 2.0
    assert len(ledger.other_accesses) == 1
    planned = bounds_table(tmp_path / "out" / "config.toml")["noise_stddev"].dropna()
    trained = bounds_table(tmp_path / "out")["noise_stddev"].dropna()
    assert planned.item() == pytest.approx(trained.item(), rel=1e-5)
