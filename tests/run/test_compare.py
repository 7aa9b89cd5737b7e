"""Comparisons: which runs, which of them again, and what a failure does."""

import importlib
import json
from pathlib import Path

import pytest

from lipdp.config import load_config
from lipdp.errors import InvalidValue
from lipdp.results import RunResult
from lipdp.run.child import ChildFailed
from lipdp.run.compare import compare, planned_runs

MODULE = importlib.import_module("lipdp.run.compare")

EMPTY = {
    "name": "x",
    "created": "2026-03-01T12:00:00+00:00",
    "plan": {},
    "statement": "A statement.",
    "spent": {
        "epsilon": 1.0,
        "delta": 1e-5,
        "steps": 6,
        "sampling_rate": 0.05,
        "noise_multiplier": 0.9,
        "accountant": "pld",
        "adjacency": "add-remove",
    },
    "test": {"rows": 100, "accuracy": 0.84, "auroc": 0.89, "majority_accuracy": 0.76},
    "certified": [],
    "lipschitz_constant": 1.0,
    "training_rows": 400,
    "seconds": 1.5,
    "versions": {},
}


class Trainer:
    """Takes the place of the processes."""

    def __init__(self):
        self.trained, self.failing, self.interrupting = [], {}, ()

    def __call__(self, arguments, environment, on_line):
        config, folder = Path(arguments[3]), Path(arguments[5])
        self.trained.append(folder.name)
        if folder.name in self.failing:
            raise ChildFailed(2, self.failing[folder.name])
        on_line("epoch 1/1  epsilon 1.0000\n")
        on_line("Files\n")
        folder.mkdir(exist_ok=True)
        tables = load_config(config).model_dump(mode="json")
        result = {**EMPTY, "config": tables, "interrupted": folder.name in self.interrupting}
        RunResult.model_validate(result).save(folder / "result.json")


@pytest.fixture
def trainer(monkeypatch):
    fake = Trainer()
    monkeypatch.setattr(MODULE, "run_child", fake)
    monkeypatch.setattr(MODULE, "check_dp_sgd", lambda config: None)
    return fake


@pytest.fixture
def base():
    return load_config(None, ["data.split_seed=5", "privacy.noise_multiplier=2"])


def test_every_method_epsilon_and_seed(base):
    runs = planned_runs(base, [1.0, 2.5], 2)
    assert [run.name for run in runs] == [
        f"{name}-seed{seed}"
        for seed in range(2)
        for name in (
            "clipless-epsilon1",
            "clipless-epsilon2.5",
            "dp-sgd-epsilon1",
            "dp-sgd-epsilon2.5",
            "none",
        )
    ]
    last, other = runs[-1].config, runs[-2].config
    assert last.training.method == "none"
    assert (last.privacy.epsilon, last.privacy.noise_multiplier) == (None, 0.0)
    assert (other.privacy.epsilon, other.privacy.noise_multiplier) == (2.5, None)
    assert {run.config.data.split_seed for run in runs[:5]} == {5}
    assert {run.config.data.split_seed for run in runs[5:]} == {6}
    assert {run.config.training.initial_seed for run in runs} == {0, 1}
    assert all(run.config.privacy.seed is None for run in runs)
    assert all(run.config.loss == base.loss and run.config.model == base.model for run in runs)


@pytest.mark.parametrize(
    ("epsilons", "seeds", "methods"),
    [([], 1, ["none"]), ([1.0, 1.0], 1, ["none"]), ([1.0], 0, ["none"]), ([1.0], 1, [])],
)
def test_bad_plans_are_refused(base, epsilons, seeds, methods):
    with pytest.raises(InvalidValue):
        planned_runs(base, epsilons, seeds, methods)


def test_finished_runs_are_kept_and_interrupted_ones_go_on(base, trainer, tmp_path):
    runs = planned_runs(base, [1.0], 2)
    trainer.interrupting = ("dp-sgd-epsilon1-seed0",)
    first = compare(runs, tmp_path / "out")
    assert trainer.trained == [run.name for run in runs]
    assert len(first.folders) == 5 and not first.failures
    trainer.trained, trainer.interrupting = [], ()
    said = []
    second = compare(runs, tmp_path / "out", said.append)
    assert trainer.trained == ["dp-sgd-epsilon1-seed0"]
    assert len(second.folders) == 6
    assert "5 of 6 runs are finished already" in said[0]


def test_a_failure_does_not_end_the_rest(base, trainer, tmp_path):
    trainer.failing = {"dp-sgd-epsilon1-seed0": "warning\nError: memory ran out"}
    said = []
    done = compare(planned_runs(base, [1.0], 1), tmp_path / "out", said.append)
    assert [folder.name for folder in done.folders] == ["clipless-epsilon1-seed0", "none-seed0"]
    assert done.failures == (("dp-sgd-epsilon1-seed0", "memory ran out"),)
    assert "dp-sgd-epsilon1-seed0: memory ran out" in said
    assert any("min left" in line for line in said)
    assert "none-seed0: accuracy 0.8400, 2 s" in said
    kept = (tmp_path / "out" / "compare.log").read_text().splitlines()
    assert [line.split("  ", 1)[1] for line in kept] == said


def test_the_epochs_of_a_run_are_heard_and_no_more_of_it(base, trainer, tmp_path):
    said = []
    compare(planned_runs(base, [1.0], 1, ["none"]), tmp_path / "out", said.append)
    assert said == [
        "none-seed0: run 1 of 1",
        "  epoch 1/1  epsilon 1.0000",
        "none-seed0: accuracy 0.8400, 2 s",
    ]


def test_a_comparison_of_which_every_run_failed_goes_on(base, trainer, tmp_path):
    runs = planned_runs(base, [1.0], 1, ["none"])
    trainer.failing = {"none-seed0": "Error: no"}
    assert compare(runs, tmp_path / "out").failures
    trainer.failing = {}
    assert not compare(runs, tmp_path / "out").failures


def test_each_run_has_a_folder_of_curves(base):
    base = base.model_copy(
        update={"training": base.training.model_copy(update={"tensorboard": "boards"})}
    )
    runs = planned_runs(base, [1.0], 1)
    boards = {run.method: run.config.training.tensorboard for run in runs}
    assert boards["clipless"] == "boards/clipless-epsilon1-seed0"
    assert (boards["none"], boards["dp-sgd"]) == ("boards/none-seed0", None)


def test_runs_with_other_settings_are_not_mixed(base, trainer, tmp_path):
    compare(planned_runs(base, [1.0], 1), tmp_path / "out")
    trainer.trained = []
    other = load_config(None, ["training.epochs=3"])
    with pytest.raises(InvalidValue, match="other settings"):
        compare(planned_runs(other, [1.0], 1), tmp_path / "out")
    assert trainer.trained == []


def test_only_runs_are_left(base, trainer, tmp_path):
    compare(planned_runs(base, [1.0], 1, ["none"]), tmp_path / "out")
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["compare.log", "none-seed0"]
    saved = json.loads((tmp_path / "out" / "none-seed0" / "result.json").read_text())
    assert saved["config"]["training"]["method"] == "none"


def test_settings_that_a_killed_command_left_are_removed(base, trainer, tmp_path):
    runs = planned_runs(base, [1.0], 1)
    compare(runs, tmp_path / "out")
    # The command was killed; the run that it had begun ended all the same.
    left = tmp_path / "out" / ".clipless-epsilon1-seed0.toml"
    left.write_text("")
    trainer.trained = []
    compare(runs, tmp_path / "out")
    assert trainer.trained == [] and not left.exists()


@pytest.mark.parametrize("name", ["result.json", "thesis.txt", "study.db", "none-seed0.txt"])
def test_the_folder_of_something_else_is_refused(base, trainer, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(json.dumps({**EMPTY, "config": {}}))
    with pytest.raises(InvalidValue, match=f"{name}.*Choose another --output"):
        compare(planned_runs(base, [1.0], 1), tmp_path / "out")
    assert trainer.trained == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_a_run_is_refused_though_a_comparison_was_written_into_it(base, trainer, tmp_path):
    compare(planned_runs(base, [1.0], 1), tmp_path / "out")
    (tmp_path / "out" / "result.json").write_text(json.dumps({**EMPTY, "config": {}}))
    with pytest.raises(InvalidValue, match="the folder of a run"):
        compare(planned_runs(base, [1.0], 1), tmp_path / "out")


@pytest.mark.parametrize(
    "name",
    [
        ".clipless-epsilon1-seed0.toml",
        ".clipless-epsilon2.5e-05-seed12.unfinished",
        ".dp-sgd-epsilon1-seed0.77.partial",
        ".none-seed0.toml",
    ],
)
def test_what_an_interruption_left_goes_on(base, trainer, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    compare(planned_runs(base, [1.0], 1), tmp_path / "out")
    assert len(trainer.trained) == 3 and (tmp_path / "out" / "notes.txt").read_text() == "mine"
