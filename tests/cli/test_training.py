"""``lipdp train`` that is interrupted, and that goes on."""

from __future__ import annotations

import json
import os
import signal

import pytest


def send(*numbers):
    def signals():
        for number in numbers:
            os.kill(os.getpid(), number)

    return signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_leaves_a_run_and_says_how_to_go_on(run, experiment, tmp_path, number, code):
    experiment.signals = send(number)
    result = run("train", "--output", "out")
    assert result.exit_code == code
    assert "epsilon 7.98 at delta 1e-05" in result.stdout
    assert "To go on: lipdp train --resume out" in result.stderr
    assert json.loads((tmp_path / "out" / "result.json").read_text())["interrupted"] is True


def test_two_signals_end_at_once(run, experiment, tmp_path):
    experiment.signals = send(signal.SIGINT, signal.SIGINT)
    experiment.unfinished = True
    result = run("train", "--output", "out")
    assert result.exit_code == 130
    assert "at once" in result.stderr and "--resume out" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_signal_before_the_first_step_leaves_nothing(run, experiment):
    experiment.error = KeyboardInterrupt()
    result = run("train")
    assert result.exit_code == 130
    assert "nothing was spent" in result.stderr and "--resume" not in result.stderr


def test_signals_act_as_before_afterwards(run, experiment):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    experiment.signals = send(signal.SIGTERM)
    run("train", "--output", "out")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_json_of_an_interrupted_run_is_json_alone(run, experiment):
    experiment.signals = send(signal.SIGINT)
    result = run("train", "--output", "out", "--json")
    assert result.exit_code == 130
    assert json.loads(result.stdout)["interrupted"] is True


def test_a_run_goes_on_by_its_folder_alone(run, experiment, tmp_path):
    result = run("train", "--resume", "out", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert [str(call["resumed"]) for call in experiment.calls] == ["out"]


@pytest.mark.parametrize(
    "options",
    [
        ["--epsilon", "3"],
        ["--output", "other"],
        ["--set", "training.epochs=3"],
        ["--overwrite"],
        ["--tensorboard", "tb"],
    ],
)
def test_a_run_that_goes_on_has_its_own_settings(refused, experiment, options):
    text = refused("train", "--resume", "out", *options)
    assert options[0] in text and "--resume" in text
    assert experiment.calls == []


def test_tensorboard_is_a_setting(run, experiment):
    run("train", "--tensorboard", "tb")
    assert experiment.calls[0]["config"].training.tensorboard == "tb"
