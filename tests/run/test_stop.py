"""A training that is stopped early is a run of the steps so far, and goes on later."""

import contextlib
import json

import pandas as pd
import pytest

import lipdp
from lipdp.errors import InvalidData, InvalidValue
from lipdp.results import RunResult
from lipdp.run import is_unfinished, resume, train

EPOCHS, STEPS = 5, 6


class StopAfter:
    """Wants to stop after some steps; a listener too."""

    def __init__(self, after):
        self.after, self.steps, self.inside, self.messages = after, 0, False, []

    @property
    def wanted(self):
        # Asked in each part of a batch, before the listener hears of the step.
        return self.steps + 1 >= self.after

    @contextlib.contextmanager
    def watching(self):
        self.inside = True
        yield
        self.inside = False

    def on_start(self, plan, total_epochs, steps_per_epoch):
        assert self.inside

    def on_step(self, epoch, step):
        self.steps += 1

    def on_epoch(self, epoch, logs):
        known = ("epsilon", "certified_radius")
        assert all(name in known or name.startswith("val_") for name in logs)

    def on_message(self, text):
        self.messages.append(text)


def stopped(config, output, after):
    ears = StopAfter(after)
    return train(config, output, listener=ears, stopper=ears).result, ears


slow = pytest.mark.slow


def check_log(text):
    """Both parts, with the time, and nothing exact from training rows."""
    parts = text.split("going on with an interrupted run")
    assert len(parts) == 2
    assert "epoch 1/5" in parts[0] and "interrupted" in parts[0]
    assert "epoch 5/5" in parts[1] and parts[1].endswith("finished\n")
    assert all(line[:4].isdigit() for line in text.splitlines())
    assert f"lipdp {lipdp.__version__}" in text and "epsilon" in text
    assert "loss" not in text and "logistic" not in text


@pytest.mark.parametrize(
    "after",
    [pytest.param(1, marks=slow), 2 * STEPS + 4, pytest.param(3 * STEPS, marks=slow)],
)
def test_it_leaves_a_valid_run_that_goes_on(make_config, tmp_path, after):
    output = tmp_path / "run"
    first, ears = stopped(make_config(), output, after)
    # As if the first session had taken long.
    (tmp_path / ".run.unfinished" / "seconds.json").write_text("1000.0")
    assert ears.steps == after and not ears.inside
    assert first.interrupted and first.spent.steps == after and first.spent.epsilon < 8.0
    assert RunResult.load(output / "result.json") == first
    assert lipdp.load_model(output / "model.keras").ledger.steps == after
    assert f"steps:            {after}\n" in first.statement
    assert is_unfinished(output)
    second = resume(output).result
    assert not second.interrupted and second.spent.steps == EPOCHS * STEPS
    assert second.seconds > 1000.0 > first.seconds
    assert 7.9 <= second.spent.epsilon <= 8.0
    history = pd.read_csv(output / "history.csv")
    assert history["epoch"].is_unique and history["epoch"].max() == EPOCHS
    check_log((output / "train.log").read_text())
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@slow
def test_weights_go_on_where_they_were_stopped(make_config, tmp_path):
    """With a learning rate that rounds to nothing, all that moves is what moved before."""
    output = tmp_path / "run"
    stopped(make_config("optimizer.momentum=0.0"), output, STEPS + 2)
    before = lipdp.load_model(output / "model.keras").get_weights()
    config = json.loads((tmp_path / ".run.unfinished" / "config.json").read_text())
    config["config"]["optimizer"]["learning_rate"] = 1e-30
    (tmp_path / ".run.unfinished" / "config.json").write_text(json.dumps(config))
    resume(output)
    after = lipdp.load_model(output / "model.keras").get_weights()
    assert all((a == b).all() for a, b in zip(before, after, strict=True))


@slow
def test_the_same_command_goes_on_too(make_config, tmp_path):
    config, output = make_config(), tmp_path / "run"
    stopped(config, output, STEPS)
    assert train(config, output).result.spent.steps == EPOCHS * STEPS


@slow
def test_a_batch_in_parts_is_finished(make_config, tmp_path):
    config = make_config("training.micro_batch_size=50", "privacy.seed=0")
    result, ears = stopped(config, tmp_path / "run", 4)
    assert ears.steps == 4
    assert result.interrupted and result.spent.steps == 4


@slow
def test_after_the_last_step_there_is_nothing_to_stop(make_config, tmp_path):
    result, _ = stopped(make_config(), tmp_path / "run", EPOCHS * STEPS)
    assert not result.interrupted and not is_unfinished(tmp_path / "run")


def test_what_cannot_go_on_says_why(make_config, tmp_path):
    output = tmp_path / "run"
    with pytest.raises(InvalidValue, match="no interrupted run"):
        resume(output)
    stopped(make_config("training.epochs=2"), output, 1)
    path = tmp_path / ".run.unfinished" / "config.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "lipdp": "0.0.1"}))
    with pytest.raises(InvalidValue, match=r"lipdp 0\.0\.1 began this run"):
        resume(output)
    path.write_text("{")
    with pytest.raises(InvalidData, match="damaged"):
        resume(output)
    path.write_text(json.dumps(kept))
    resume(output)
    with pytest.raises(InvalidValue, match="finished"):
        resume(output)


@slow
def test_paths_are_whole_so_that_it_goes_on_from_another_folder(make_config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = make_config("data.path=t.csv", "data.schema_path=t.toml")
    stopped(config, tmp_path / "run", 1)
    monkeypatch.chdir("/")
    assert resume(tmp_path / "run").result.spent.steps == EPOCHS * STEPS
