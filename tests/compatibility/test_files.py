"""Files of earlier versions are read by this one: models, weights, ledgers, runs, pickles."""

import json
import pickle
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
from click.testing import CliRunner

import lipdp
from lipdp.cli import COMMANDS
from lipdp.config import load_config
from lipdp.losses import MulticlassHinge
from lipdp.privacy import PrivacyLedger
from lipdp.results import RunResult
from tests.compatibility.write_files import (
    BATCH,
    DELTA,
    NOISE,
    SWEEP_SETTINGS,
    inputs_of,
    small_model,
)

VERSIONS = sorted(path.stem for path in Path(__file__).parent.glob("*.zip"))
FACTS = {v: json.loads(Path(__file__).with_name(f"{v}.json").read_text()) for v in VERSIONS}
MODELS = [(version, name) for version in VERSIONS for name in FACTS[version]["models"]]


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def files(version, tmp_path_factory):
    """All files of one version."""
    folder = tmp_path_factory.mktemp("files")
    with zipfile.ZipFile(Path(__file__).with_name(f"{version}.zip")) as archive:
        archive.extractall(folder)
    return folder


def test_there_are_files_of_every_kind(version):
    facts = FACTS[version]
    assert len(facts["models"]) > 70 and len(facts["pickles"]["written"]) > 7
    assert all(len(facts["names"][f"lipdp.{name}"]) > 10 for name in ("layers", "losses"))


@pytest.mark.parametrize("kind", ["-compiled", pytest.param("", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("version", "name"), MODELS, ids=lambda word: word.replace("/", " "))
def test_a_model(version, name, kind, tmp_path):
    """Compiled or released: the same outputs, constant, and account of what was spent."""
    fact, path = FACTS[version]["models"][name], f"models/{name}{kind}.keras"
    with zipfile.ZipFile(Path(__file__).with_name(f"{version}.zip")) as archive:
        archive.extract(path, tmp_path)
    model = lipdp.load_model(tmp_path / path)
    x = np.asarray(fact["input"], model.inputs[0].dtype)
    np.testing.assert_allclose(model(x), fact["output"], rtol=1e-4, atol=1e-5)
    assert model.lipschitz_constant() == pytest.approx(fact["lipschitz"], rel=1e-6)
    assert model.ledger.steps == fact["steps"]
    assert model.ledger.epsilon(DELTA) == pytest.approx(fact["epsilon"], rel=1e-9)
    assert bool(kind) == (getattr(model, "loss", None) is not None)


def test_weights_and_a_ledger(version, files):
    fact = FACTS[version]["training"]["weights"]
    model = small_model()
    model.load_weights(files / "training" / "weights.weights.h5")
    found = model.predict(np.asarray(fact["input"], "float32"), verbose=0)
    np.testing.assert_allclose(found, fact["output"], rtol=1e-5, atol=1e-6)
    text = (files / "training" / "ledger.json").read_text()
    for ledger in (model.ledger, PrivacyLedger.from_json(text)):
        assert ledger.steps == fact["steps"]
        assert ledger.epsilon(DELTA) == pytest.approx(fact["epsilon"], rel=1e-9)


def test_a_backup_goes_on(version, files):
    x = inputs_of((4,), None)
    model = small_model()
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        MulticlassHinge(margin=0.5),
        privacy=lipdp.PrivacyBudget(noise_multiplier=NOISE, delta=DELTA),
    )
    backup = keras.callbacks.BackupAndRestore(files / "training" / "backup")
    y = (x[:, 0] > 0).astype("int64")
    model.fit(x, y, batch_size=BATCH, epochs=5, verbose=0, callbacks=[backup])
    spent = FACTS[version]["training"]["backup"]["steps"]
    # Two epochs of two steps were kept; what ran after them was spent all the same.
    assert model.ledger.steps == spent + (5 - 2) * 2


def test_configurations(files):
    paths = sorted((files / "configs").glob("*.toml"))
    assert len(paths) > 15
    for path in paths:
        assert load_config(path).privacy.epsilon


def test_pickles(version, files):
    facts = FACTS[version]["pickles"]
    found = {
        name: pickle.loads((files / "pickles" / f"{name}.pickle").read_bytes())
        for name in facts["written"]
    }
    assert found["ledger"].epsilon(1e-5) == pytest.approx(facts["ledger"], rel=1e-9)
    assert found["phase"].steps == 100 and found["terms"].unit == "user"
    assert found["budget"] == lipdp.PrivacyBudget(epsilon=3.0, delta=1e-5)
    assert found["config"] == load_config(files / "configs" / "adult.toml")
    assert found["result"] == RunResult.load(files / "runs" / "table" / "run" / "result.json")
    assert all(np.isfinite(found["bounds"].parameters)) and len(found["certificates"].radii) == 16


@pytest.mark.slow
class TestRuns:
    """What a person does with the folders of an earlier version."""

    @pytest.fixture
    def call(self, files, monkeypatch):
        monkeypatch.chdir(files / "runs" / "table")

        def call(*words):
            answer = CliRunner().invoke(COMMANDS, [*words], catch_exceptions=False)
            assert answer.exit_code == 0, answer.output
            return answer.stdout

        return call

    def test_a_run_is_read(self, version, call):
        fact = FACTS[version]["runs"]["run"]
        call("predict", "run", "--data", "t.csv", "--output", "p.csv")
        assert len(Path("p.csv").read_text().splitlines()) == 301
        call("report", "run", "--output", "page.html")
        assert "<svg" in Path("page.html").read_text()
        told = json.loads(call("account", "runs", "run", "--json"))
        assert told["epsilon"] == pytest.approx(fact["epsilon"], rel=1e-6)

    def test_an_interrupted_run_goes_on(self, version, call):
        steps = FACTS[version]["runs"]["stopped"]
        # Where its data lay is kept as a whole path.
        kept = Path(".stopped.unfinished/config.json")
        was = Path(json.loads(kept.read_text())["config"]["data"]["path"]).parent
        kept.write_text(kept.read_text().replace(str(was), str(Path.cwd())))
        call("train", "--resume", "stopped", "--quiet")
        result = RunResult.load(Path("stopped/result.json"))
        assert result.spent.steps >= steps and not Path(".stopped.unfinished").exists()

    def test_a_sweep_goes_on(self, call):
        before = json.loads(Path("sweep/sweep.json").read_text())
        call("sweep", "sweep.toml", "--trials", "3", "--output", "sweep", *SWEEP_SETTINGS)
        after = json.loads(Path("sweep/sweep.json").read_text())
        assert [t["state"] for t in after["trials"]] == ["finished"] * 3
        assert after["trials"][:2] == before["trials"]
