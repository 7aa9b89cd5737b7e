"""``lipdp sweep``: what reaches the sweep, and what is said about it."""

from __future__ import annotations

import json

import pytest

from lipdp.cli._summary import trial_line
from lipdp.sweep import Best, Choosing, Progress, RepeatCost, SweepResult, TrialRecord, cost_notes

SPACE = '\n[sweep.space]\n"training.epochs" = [1, 2]\n'


def trial(number, **more):
    facts = {"run": f"{number:03d}", "state": "finished", "parameters": {"training.epochs": 2}}
    return TrialRecord(number=number, **{**facts, "value": 0.8, **more})


COST = Choosing(
    delta=1e-5,
    accountant="pld",
    adjacency="add-remove",
    alone=1.82821,
    together=6.18771,
    counted_trials=10,
    repeat=RepeatCost(epsilon=4.1, applies=False, mean=10.0, shape=1.0, words="Not of this sweep."),
    epsilon=6.18771,
    final=True,
    not_private="",
    not_covered=["The validation rows."],
)


def result(**more):
    facts = {
        "study": "s",
        "metric": "accuracy",
        "mode": "search",
        "config": {},
        "sweep": {"space": {"training.epochs": [1, 2]}},
        "trials": [
            trial(0),
            trial(1, state="failed", value=None, reason="No finite bound."),
        ],
        "best": Best(run="000", number=0, value=0.8, parameters={}),
        "choosing": COST,
    }
    return SweepResult(**{**facts, **more})


@pytest.fixture
def sweep(monkeypatch, run, tmp_path):
    """Runs the command with a stand-in for the sweep."""
    (tmp_path / "c.toml").write_text(run("config", "show").stdout + SPACE)

    def call(*arguments, found=None, error=None):
        calls = []

        def fake(config, output, *, hearer, **options):
            calls.append({"config": config, "output": output, **options})
            if error is not None:
                raise error
            if hearer is not None:
                hearer(Progress(trial(0), 1, 2, 61.0))
            return found or result()

        monkeypatch.setattr("lipdp.sweep.sweep", fake)
        return run("sweep", "c.toml", *arguments), calls

    return call


def test_options_reach_the_sweep(sweep):
    done, (call,) = sweep("--trials", 5, "--jobs", 2, "--set", "training.epochs=9")
    assert done.exit_code == 0, done.output
    assert (call["trials"], call["jobs"], call["random_trials"]) == (5, 2, None)
    assert call["output"].as_posix() == "runs/c" and call["config"].training.epochs == 9
    assert call["config"].sweep.space == {"training.epochs": [1, 2]}


def test_both_costs_are_said(sweep):
    done, _ = sweep("--trials", 2)
    words = " ".join(done.stdout.split())
    assert "1/2 trial 0 finished 0.8000 training.epochs=2 1:01 left" in words
    assert "The chosen run alone, had nothing else been tried: epsilon 1.8283" in words
    assert "With all that were tried (10), pruned and failed ones included: epsilon 6.1878" in words
    assert "What may be claimed of the chosen run: epsilon 6.1878." in words
    assert "- Not covered: The validation rows." in words


def test_quiet_and_json(sweep):
    done, _ = sweep("--trials", 2, "--quiet")
    assert (done.exit_code, done.stdout) == (0, "")
    done, _ = sweep("--trials", 2, "--json")
    assert json.loads(done.stdout)["choosing"]["together"] == 6.18771


def test_a_sweep_of_failures_is_an_error(sweep):
    done, _ = sweep("--trials", 2, "--quiet", found=result(best=None, choosing=None))
    assert done.exit_code == 2 and "No finite bound" in done.stderr


def test_interruption_says_how_to_go_on(sweep):
    done, _ = sweep("--trials", 2, error=KeyboardInterrupt())
    assert done.exit_code == 130 and "The same command goes on" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "one of --trials and --random-trials"),
        (["--trials", 2, "--random-trials", 2], "one of --trials and --random-trials"),
        (["--trials", 0], "at least 1"),
        (["--random-trials", "nan"], "at least 1"),
        (["--trials", 2, "--jobs", 0], "at least 1"),
        (["--trials", 2, "--set", "sweep.space={'model.width'=[[1]]}"], "model.width"),
        (["--trials", 2, "--set", "training.method=dp-sgd"], "own training alone"),
        (["--random-trials", "inf"], "at least 1"),
        (["--trials", 2, "--set", "sweep="], "has no section [sweep]"),
        (["--random-trials", 2, "--set", "privacy.seed=1"], "With a seed nothing is private"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(run, refused, tmp_path, arguments, words):
    (tmp_path / "c.toml").write_text(run("config", "show").stdout + SPACE)
    assert words in refused("sweep", "c.toml", *arguments)


def test_words_of_a_trial_that_failed_and_of_costs_so_far():
    line = trial_line(Progress(trial(3, state="failed", value=None, reason="Why."), 4, 4, 0.0))
    assert line == "4/4  trial 3 failed  training.epochs=2  (Why.)"
    lines = cost_notes(COST.model_copy(update={"final": False, "not_private": "a seed"}))
    assert any("so far" in one for one in lines) and any("NOT PRIVATE" in one for one in lines)


def test_what_another_machine_spends_is_said(sweep):
    missing = {"together": "inf", "epsilon": "inf", "final": False, "unknown_trials": [7]}
    cost = Choosing(**{**COST.model_dump(), **missing})
    done, _ = sweep("--trials", 2, found=result(choosing=cost))
    words = " ".join(done.stdout.split())
    assert "epsilon inf, so far" in words and "What trial 7 spent is not known here" in words
    assert "copy its folder trials" in words and "Nothing may be claimed" in words
