"""``lipdp compare``: lists on the command line, a table, and what fails."""

from __future__ import annotations

import json
import math
import os
import signal
import types

import pytest

from lipdp.cli.compare import _repeated
from lipdp.results import RunResult
from tests.cli.conftest import FIELDS


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (["--epsilons", "1", "3", "--seeds", "3"], "--epsilons 1 --epsilons 3 --seeds 3"),
        (["--epsilons", "1,3", "my.toml"], "--epsilons 1 --epsilons 3 my.toml"),
        (["my.toml", "--epsilons=1,3", "8"], "my.toml --epsilons 1 --epsilons 3 --epsilons 8"),
        (["--methods", "none", "dp-sgd", "x.toml"], "--methods none --methods dp-sgd x.toml"),
        (["--epsilons", "much"], "--epsilons much"),
        (["--seeds", "3", "--epsilons"], "--seeds 3 --epsilons"),
        (["--set", "a=1", "--set", "b=2"], "--set a=1 --set b=2"),
    ],
)
def test_lists_are_what_click_knows(given, seen):
    assert _repeated(given) == seen.split()


class Compared:
    """Takes the place of the trainings."""

    def __init__(self):
        self.planned, self.failures, self.output = None, (), None
        self.signal, self.accuracies = None, (0.8, 0.81, 0.82)

    def planned_runs(self, config, epsilons, seeds, methods):
        self.planned = (config, epsilons, seeds, methods)
        return [
            (method, epsilon, seed)
            for method in methods
            for epsilon in ((math.inf,) if method == "none" else epsilons)
            for seed in range(seeds)
        ]

    def compare(self, runs, output, say):
        say("training")
        if self.signal is not None:
            os.kill(os.getpid(), self.signal)
        self.output = output
        folders = []
        for method, epsilon, seed in runs:
            folder = output / f"{method}-{epsilon:g}-{seed}"
            folder.mkdir(parents=True)
            config = {"data": {"name": "adult"}, "privacy": {"epsilon": epsilon}}
            test = {**FIELDS["test"], "accuracy": self.accuracies[seed]}
            spent = {**FIELDS["spent"], "epsilon": epsilon}
            fields = {**FIELDS, "config": config, "spent": spent, "method": method, "test": test}
            fields["peak_memory_bytes"] = 2**29
            RunResult.model_validate(fields).save(folder / "result.json")
            folders.append(folder)
        return types.SimpleNamespace(folders=folders, failures=self.failures)


@pytest.fixture
def compared(monkeypatch, experiment):
    import sys

    fake = Compared()
    module = types.ModuleType("lipdp.run.compare")
    module.compare, module.planned_runs = fake.compare, fake.planned_runs
    monkeypatch.setitem(sys.modules, "lipdp.run.compare", module)
    return fake


def test_the_table_has_a_line_a_method_and_epsilon(run, compared, tmp_path):
    result = run("compare", "--epsilons", "1", "8", "--seeds", "2", "-o", "out")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    table = {(line[0], line[1]): line for line in lines if line and line[0] in METHODS}
    assert list(table) == [
        ("clipless", "1"),
        ("dp-sgd", "1"),
        ("clipless", "8"),
        ("dp-sgd", "8"),
        ("none", "inf"),
    ]
    # Student's t at 1 degree of freedom: 12.706 * 0.01 / 2.
    assert table["none", "inf"][2:6] == ["2", "0.8050", "(0.7415-0.8685)", "0.8923"]
    assert table["none", "inf"][-3:] == ["1.5", "537", "MB"]
    written = {path.name for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert written == {"compare.html", "compare.csv", "compare.json"}


METHODS = ("clipless", "dp-sgd", "none")


def test_the_defaults(run, compared):
    assert run("compare", "--set", "training.epochs=7").exit_code == 0
    config, epsilons, seeds, methods = compared.planned
    assert (epsilons, seeds, methods) == ((1.0, 3.0, 8.0), 3, METHODS)
    assert config.training.epochs == 7
    assert compared.output.as_posix() == "runs/compare-adult"


def test_which_rows_is_an_option(run, compared, tmp_path):
    (tmp_path / "sets").mkdir()
    assert run("compare", "--data-dir", "sets", "--limit-rows", "99").exit_code == 0
    data = compared.planned[0].data
    assert (data.dir, data.limit_rows) == ("sets", 99)


def test_json_is_json_alone(run, compared):
    result = run("compare", "--methods", "none", "--seeds", "1", "--json")
    (row,) = json.loads(result.stdout)
    assert (row["method"], row["epsilon"]) == ("none", "inf")
    assert row["accuracy"] == {"mean": 0.8, "interval": None}
    assert row["peak_memory_bytes"] == 2**29
    (row,) = json.loads(
        run("compare", "--methods", "none", "--seeds", "2", "-o", "two", "--json").stdout
    )
    assert row["accuracy"]["interval"] == pytest.approx([0.7415, 0.8685], abs=1e-4)


def test_an_interval_of_shares_ends_at_one(run, compared):
    compared.accuracies = (0.99, 0.95)
    result = run("compare", "--methods", "none", "--seeds", "2")
    assert "0.9700 (0.7159-1.0000)" in result.stdout


def test_other_runs_of_the_folder_are_named(run, compared, tmp_path):
    arguments = ["compare", "--methods", "clipless", "--seeds", "1", "-o", "out"]
    assert "Not counted" not in run(*arguments, "--epsilons", "8").stdout
    written = tmp_path / "out" / ".dp-sgd-1-0.77.partial"
    written.mkdir()
    (written / "result.json").write_text("{")
    said = run(*arguments, "--epsilons", "1").stdout
    assert "Not counted here" in said and "out/clipless-8-0" in said and "partial" not in said
    assert "Not counted here" in (tmp_path / "out" / "compare.html").read_text()


def test_a_failure_shows_after_the_table(run, compared):
    compared.failures = (("dp-sgd-epsilon1-seed0", "memory ran out"),)
    result = run("compare", "--epsilons", "1", "--seeds", "1")
    assert result.exit_code == 1
    assert "dp-sgd-epsilon1-seed0 failed: memory ran out" in result.stderr
    assert "clipless" in result.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("methods", [["clipless"], ["clipless", "dp-sgd"]])
def test_interruption_says_how_to_go_on(run, compared, number, methods):
    compared.signal = number
    result = run("compare", "-o", "out", "--methods", *methods)
    assert result.exit_code == 128 + number
    assert "out holds the runs so far" in result.stderr
    assert "The same command goes on" in result.stderr
    assert ("begins anew" in result.stderr) == ("dp-sgd" in methods)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--epsilons", "much"], "'much'"),
        (["--methods", "magic"], "'magic'"),
        (["--epsilons"], "argument"),
        (["nowhere.toml"], "nowhere.toml"),
    ],
)
def test_bad_input(refused, compared, arguments, word):
    assert word in refused("compare", *arguments)
    assert compared.planned is None
