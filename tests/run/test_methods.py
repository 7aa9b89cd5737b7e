"""Training without privacy, and what dp-sgd refuses and asks its process for."""

import importlib
import importlib.util
import json
import math
import stat
from pathlib import Path

import keras
import numpy as np
import pytest

from lipdp.errors import InvalidData, InvalidState, UnsafeSetting
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.spent import unfinished_ledger
from lipdp.results import RunResult
from lipdp.run import bounds_table, dp_sgd, predict, train
from lipdp.run.child import ChildFailed

#: The package has a function of the same name.
TRAIN = importlib.import_module("lipdp.run.train")


class Process:
    """Takes the place of tensorflow-privacy: keeps the request and moves the weights."""

    def __init__(self, error=None):
        self.error, self.request, self.folder, self.rows = error, {}, None, None
        self.first_lines = []

    def __call__(self, arguments, environment, on_line):
        self.folder = Path(arguments[-1])
        assert stat.S_IMODE(self.folder.stat().st_mode) == 0o700
        self.request = json.loads((self.folder / "request.json").read_text())
        self.rows = np.load(self.folder / "x_train.npy")
        for line in self.first_lines:
            on_line(line)
        if self.error:
            raise self.error
        model = keras.models.load_model(self.folder / "model.keras")
        np.savez(self.folder / "weights.npz", *(w + 0.5 for w in model.get_weights()))
        (self.folder / "done.json").write_text('{"peak_memory_bytes": 123}')
        on_line("a library's own line\n")
        for epoch in range(self.request["epochs"]):
            on_line(json.dumps({"event": "step", "epoch": epoch, "step": 0}))
            on_line(json.dumps({"event": "epoch", "epoch": epoch, "val_accuracy": 0.5}))


@pytest.fixture
def process(monkeypatch):
    fake = Process()
    monkeypatch.setattr(dp_sgd, "run_child", fake)
    monkeypatch.setattr(TRAIN, "check_dp_sgd", lambda config: None)
    return fake


def test_without_privacy_the_budget_is_ignored_and_nothing_is_claimed(make_config, tmp_path):
    # The seed decides the accuracy, which varies by 0.02 around 0.78 otherwise.
    options = ("preprocess.kind=private-standardize", "privacy.seed=1")
    config = make_config("training.method=none", *options)
    result = train(config, tmp_path / "out").result
    assert math.isinf(result.spent.epsilon) and result.spent.steps == 30
    assert result.statement.startswith("NOT PRIVATE")
    assert [reason.split(" (")[0].split(":")[0] for reason in result.not_private] == [
        "no noise was added",
        "a seed was given",
    ]
    assert result.method == "none" and result.config["training"]["method"] == "none"
    assert result.test.accuracy > 0.7
    assert result.certified[0].accuracy > 0.1
    assert result.peak_memory_bytes > 2**26
    assert "NOT PRIVATE" in (tmp_path / "out" / "report.html").read_text()


def test_dp_sgd_has_the_plan_of_the_clipless_training(make_config, tmp_path, process):
    clipless = train(make_config(), tmp_path / "a").result
    config = make_config("training.method=dp-sgd", "dp_sgd.clip_norm=0.25")
    clipped = train(config, tmp_path / "b").result
    for key in ("noise_multiplier", "sampling_rate", "steps", "delta", "capacity", "accountant"):
        assert clipped.plan[key] == clipless.plan[key], key
    spent = [r.spent.model_copy(update={"ledger": ""}) for r in (clipped, clipless)]
    assert spent[0] == spent[1]
    ledgers = [PrivacyLedger.from_json(r.spent.ledger) for r in (clipped, clipless)]
    assert ledgers[0].phases == ledgers[1].phases
    asked = process.request
    assert asked["clip_norm"] == clipped.plan["clip_norm"] == 0.25
    assert asked["stddevs"] == [0.25 * clipless.plan["noise_multiplier"]] * 5
    assert (asked["batch_size"], asked["steps"]) == (80, 30)
    assert asked["capacity"] == clipless.plan["capacity"]
    assert asked["seed"] is None
    assert len(process.rows) == clipped.training_rows == 480
    assert not process.folder.exists()
    assert clipped.peak_memory_bytes == 123
    assert "clipped to Euclidean norm 0.25" in " ".join(clipped.statement.split())


def test_what_dp_sgd_trained_is_a_run_like_any_other(make_config, tmp_path, process):
    result = train(make_config("training.method=dp-sgd"), tmp_path / "out").result
    # The same bound of a row's gradient as the clipless method, where that is smaller than 1.
    assert result.plan["clip_norm"] == pytest.approx(0.35, rel=1e-6)
    assert 0.5 < result.lipschitz_constant < 1.0
    lines = (tmp_path / "out" / "history.csv").read_text().splitlines()
    assert lines[0] == "epoch,epsilon,val_accuracy" and len(lines) == 6
    assert float(lines[-1].split(",")[1]) == result.spent.epsilon <= 8.0
    found = predict(tmp_path / "out", tmp_path / "t.csv")
    assert len(found) == 600 and (found["certified_radius"] > 0).any()
    assert RunResult.load(tmp_path / "out" / "result.json").method == "dp-sgd"
    assert {p.name for p in tmp_path.iterdir()} == {"out", "t.csv", "t.toml"}


@pytest.mark.parametrize(
    ("error", "raised"),
    [(ChildFailed(-9, "tensor is sad"), InvalidState), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_process_that_ends_early_leaves_nothing(make_config, tmp_path, process, error, raised):
    process.error = error
    with pytest.raises(raised) as caught:
        train(make_config("training.method=dp-sgd"), tmp_path / "out")
    assert raised is KeyboardInterrupt or "tensor is sad" in str(caught.value)
    assert not process.folder.exists()
    assert {p.name for p in tmp_path.iterdir()} == {"t.csv", "t.toml"}


def test_a_missing_package_is_named_before_anything_is_read(make_config, tmp_path, monkeypatch):
    found = importlib.util.find_spec

    def hidden(name, *rest):
        return None if name == "tensorflow_privacy" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    with pytest.raises(InvalidState, match=r"pip install 'lipdp\[tf-privacy\]'"):
        train(make_config("training.method=dp-sgd"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "overrides",
    [
        ["privacy.secure_noise=true"],
        ["data.group=a", "data.max_examples_per_user=2"],
        ["training.tensorboard=board"],
    ],
)
def test_what_tensorflow_privacy_lacks_is_refused(make_config, overrides, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    with pytest.raises(UnsafeSetting, match=overrides[0].partition("=")[0]):
        dp_sgd.check_dp_sgd(make_config("training.method=dp-sgd", *overrides))


def test_a_run_that_clipped_has_no_table_of_bounds(make_config, tmp_path, process):
    train(make_config("training.method=dp-sgd", "training.epochs=1"), tmp_path / "out")
    with pytest.raises(InvalidData, match="clipped its gradients"):
        bounds_table(tmp_path / "out")


def test_what_an_attempt_showed_is_counted_by_the_next(process, make_config, tmp_path):
    """Six steps were shown before the process failed; the budget is kept with them."""
    config = make_config("training.method=dp-sgd", "privacy.epsilon=4.0")
    process.error = ChildFailed(-9, "killed")
    process.first_lines = [json.dumps({"event": "epoch", "epoch": 0, "val_accuracy": 0.5})]
    with pytest.raises(InvalidState, match="killed"):
        train(config, tmp_path / "out")
    assert unfinished_ledger(tmp_path / "out").steps == 6
    process.error, process.first_lines = None, []
    result = train(config, tmp_path / "out").result
    # Of the thirty steps that the budget pays for.
    assert process.request["steps"] == 24
    assert result.spent.steps == 30 and result.spent.epsilon <= 4.0
    assert unfinished_ledger(tmp_path / "out") is None
