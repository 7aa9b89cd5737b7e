"""A runner of commands, and a stand-in for the experiments behind them."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from lipdp.results import RunResult

FIELDS: dict[str, Any] = {
    "name": "adult",
    "created": "2026-03-01T12:00:00+00:00",
    "config": {"privacy": {"epsilon": 8.0, "seed": None}},
    "plan": {"noise_multiplier": 0.9, "steps": 6},
    "statement": "A statement.",
    "spent": {
        "epsilon": 7.98,
        "delta": 1e-5,
        "steps": 6,
        "sampling_rate": 0.05,
        "noise_multiplier": 0.9,
        "accountant": "pld",
        "adjacency": "add-remove",
    },
    "test": {"rows": 100, "accuracy": 0.8412, "auroc": 0.8923, "majority_accuracy": 0.7607},
    "certified": [{"radius": 0.1, "unit": "encoded row, L2", "accuracy": 0.79, "auroc": 0.85}],
    "lipschitz_constant": 1.0,
    "training_rows": 400,
    "seconds": 1.5,
    "versions": {"lipdp": "0.1.0"},
}


@dataclass(frozen=True)
class Outcome:
    result: RunResult
    output: Path
    baseline: dict[str, float] | None


@dataclass
class FakeExperiment:
    """Takes the place of ``lipdp.run``: records what it is asked for."""

    fields: dict[str, Any] = field(default_factory=lambda: {**FIELDS})
    baseline: dict[str, float] | None = field(
        default_factory=lambda: {"accuracy": 0.8501, "auroc": 0.9034}
    )
    error: BaseException | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    unfinished: bool = False
    #: Called in the middle of the steps.
    signals: Callable[[], None] | None = None

    def train(self, config, output, *, overwrite, ledger_lost, listener=None, stopper=None):
        call = {"config": config, "output": output, "overwrite": overwrite}
        self.calls.append({**call, "ledger_lost": ledger_lost})
        return self._finish(output, listener, stopper)

    def resume(self, output, *, ledger_lost, listener=None, stopper=None):
        self.calls.append({"resumed": output, "ledger_lost": ledger_lost})
        return self._finish(output, listener, stopper)

    def is_unfinished(self, output):
        return self.unfinished

    def _finish(self, output, listener, stopper):
        with stopper.watching():
            if self.signals:
                self.signals()
        if self.error:
            raise self.error
        if listener is not None:
            self._speak(listener)
        output.mkdir(parents=True)
        result = RunResult.model_validate({**self.fields, "interrupted": stopper.wanted})
        result.save(output / "result.json")
        return Outcome(result, output, self.baseline)

    def _speak(self, listener) -> None:
        listener.on_message("reading [bold]rows[/bold]")
        listener.on_start(self.fields["plan"], 2, 3)
        for epoch in range(2):
            for step in range(3):
                listener.on_step(epoch, step)
            listener.on_epoch(epoch, {"epsilon": 4.0 + epoch, "val_accuracy": 0.5 + epoch / 10})

    def predict(self, run, data):
        self.calls.append({"run": run, "data": data})
        if self.error:
            raise self.error
        return pd.DataFrame({"predicted": ["a", "b"], "radius": [0.25, 0.5]})

    def bounds_table(self, source, overrides, *, values):
        self.calls.append({"source": source, "overrides": overrides, "values": values})
        if self.error:
            raise self.error
        return pd.DataFrame(
            {
                "layer": ["input", "dense"],
                "variable": [None, "kernel"],
                "output_bound": [1.0, float("inf")],
                "lipschitz": [1.0, 1.0],
                "bound": [float("nan"), 1.4142135],
                "noise_stddev": [float("nan"), 2.5],
            }
        )


@pytest.fixture
def experiment(monkeypatch) -> FakeExperiment:
    import lipdp

    fake = FakeExperiment()
    module = types.ModuleType("lipdp.run")
    for name in ("train", "resume", "is_unfinished", "predict", "bounds_table"):
        setattr(module, name, getattr(fake, name))
    monkeypatch.setitem(sys.modules, "lipdp.run", module)
    # Not setattr: it would ask the lazy package first and put the stand-in back at the end.
    monkeypatch.setitem(vars(lipdp), "run", module)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    return fake


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        from lipdp.cli import COMMANDS

        return CliRunner().invoke(COMMANDS, [str(a) for a in arguments], prog_name="lipdp")

    return call


@pytest.fixture
def refused(run, tmp_path):
    """Runs a command that must be refused: code 2, one message, nothing written."""

    def call(*arguments: object) -> str:
        before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert "Error: " in result.stderr
        assert "Traceback" not in result.stderr
        assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
        return " ".join(result.stderr.split())

    return call
