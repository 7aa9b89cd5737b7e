"""A sweep with a stand-in for training, whose runs spend and reach what the test says."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lipdp.config import SweepSection, load_config
from lipdp.privacy import PrivacyLedger
from lipdp.results import RunResult
from lipdp.sweep.study import Place, Settings, join_study, open_study

# The environment of other backends has no Optuna, and no test of theirs is in this folder.
collect_ignore_glob = [] if importlib.util.find_spec("optuna") else ["test_*.py"]
STEPS = 1000


def a_ledger(steps=STEPS, multiplier=1.0):
    found = PrivacyLedger()
    found.record(0.01, multiplier, steps)
    return found


@pytest.fixture
def ledger():
    """Makes the ledger of 1000 steps at (0.01, 1)."""
    return a_ledger


@dataclass
class FakeTraining:
    """Trains nothing: each epoch spends a tenth of 1000 steps at (0.01, 1)."""

    epochs: int = 10
    reaches: Any = field(default=lambda config, epoch: config.optimizer.options["learning_rate"])
    error: BaseException | None = None
    folders: list[str] = field(default_factory=list)
    configs: list[Any] = field(default_factory=list)

    def __call__(self, config, output, *, listener, stopper):
        self.folders.append(output.name)
        self.configs.append(config)
        if self.error is not None:
            raise self.error
        listener.on_start({"delta": 1e-5}, self.epochs, STEPS // self.epochs)
        done, value = 0, 0.0
        for epoch in range(self.epochs):
            if stopper.wanted:
                break
            done, value = epoch + 1, self.reaches(config, epoch)
            listener.on_epoch(epoch, {"val_accuracy": value})
        output.mkdir(parents=True)
        result = self.result(config, output, done, value)
        result.save(output / "result.json")
        return SimpleNamespace(result=result)

    def result(self, config, output, done, value):
        spent = {
            "epsilon": 1.0,
            "delta": 1e-5,
            "steps": done * STEPS // self.epochs,
            "sampling_rate": 0.01,
            "noise_multiplier": 1.0,
            "accountant": "pld",
            "adjacency": "add-remove",
            "ledger": a_ledger(done * STEPS // self.epochs).to_json(),
        }
        test = {"rows": 9, "accuracy": value, "auroc": value, "majority_accuracy": 0.5}
        return RunResult.model_validate(
            {
                "name": output.name,
                "created": "2026-03-01T12:00:00+00:00",
                "config": json.loads(config.model_dump_json()),
                "plan": {},
                "statement": "A statement.",
                "spent": spent,
                "test": test,
                "certified": [],
                "lipschitz_constant": 1.0,
                "training_rows": 9,
                "seconds": 1.0,
                "versions": {},
                "interrupted": done < self.epochs,
            }
        )


@pytest.fixture
def make_settings():
    def make(space=None, mean=None, overrides=(), **more):
        space = space or {"optimizer.learning_rate": {"low": 0.1, "high": 0.9}}
        config = load_config(None, ["training.epochs=10", *overrides])
        return Settings(config, SweepSection(space=space, **more), mean)

    return make


@pytest.fixture
def begin(tmp_path):
    """A study in a file of its own, as a worker sees it."""

    def begin(settings, trials=3):
        place = Place(f"sqlite:///{tmp_path / 's.db'}", "s", str(tmp_path / "out"), trials)
        open_study(place, settings)
        study, _ = join_study(place)
        return study, place

    return begin


@pytest.fixture
def training():
    return FakeTraining
