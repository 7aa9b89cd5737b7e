"""``lipdp train``: options become overrides, and what is written fits who reads."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from lipdp.errors import BudgetExhausted, InvalidValue

CONFIG = """
[data]
name = "adult"
[model]
name = "linear"
[loss]
name = "tempered_binary_crossentropy"
inverse_temperature = 4.0
[optimizer]
name = "SGD"
learning_rate = 0.5
[privacy]
epsilon = 2.0
"""


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("my.toml", "my.csv", "run.toml")}
    found["my.toml"].write_text("target = 'y'\n")
    found["my.csv"].write_text("a,y\n1,0\n")
    found["run.toml"].write_text(CONFIG)
    return found


def test_the_default_run(run, experiment):
    result = run("train")
    assert result.exit_code == 0, result.output
    call = experiment.calls[0]
    assert call["config"].data.name == "adult"
    assert re.fullmatch(r"runs/adult-\d{8}-\d{6}", call["output"].as_posix())
    assert call["overwrite"] is False


def test_options_become_overrides(run, experiment):
    run("train", "--epsilon", "3", "--delta", "1e-6", "--set", "training.epochs=7")
    config = experiment.calls[0]["config"]
    assert (config.privacy.epsilon, config.privacy.delta) == (3.0, 1e-6)
    assert config.training.epochs == 7 and config.data.limit_rows is None


def test_few_rows_for_a_quick_try(run, experiment):
    run("train", "--limit-rows", "500")
    assert experiment.calls[0]["config"].data.limit_rows == 500
    answer = run("train", "--limit-rows", "0")
    assert answer.exit_code == 2 and "data.limit_rows" in answer.output


def test_a_set_wins_over_an_option(run, experiment):
    run("train", "--epsilon", "3", "--set", "privacy.epsilon=4")
    assert experiment.calls[0]["config"].privacy.epsilon == 4.0


def test_private_preprocessing_is_off_unless_asked_for(run, experiment):
    run("train")
    run("train", "--preprocess", "private-whiten", "--output", "b")
    run(
        "train", "--preprocess", "private-standardize", "--preprocess-share", "0.3", "--output", "c"
    )
    run("train", "--preprocess", "private-whiten-maps", "--output", "d")
    found = [call["config"].preprocess for call in experiment.calls]
    assert [(p.kind, p.share) for p in found] == [
        ("none", 0.1),
        ("private-whiten", 0.1),
        ("private-standardize", 0.3),
        ("private-whiten-maps", 0.1),
    ]


def test_noise_replaces_the_budget_of_the_packaged_default(run, experiment):
    run("train", "--noise-multiplier", "0")
    privacy = experiment.calls[0]["config"].privacy
    assert (privacy.epsilon, privacy.noise_multiplier) == (None, 0.0)


def test_noise_keeps_the_budget_that_somebody_asked_for(run, experiment, files):
    run("train", files["run.toml"], "--noise-multiplier", "2")
    run("train", "--noise-multiplier", "2", "--epsilon", "5", "--output", "b")
    given = [call["config"].privacy for call in experiment.calls]
    assert [(p.epsilon, p.noise_multiplier) for p in given] == [(2.0, 2.0), (5.0, 2.0)]


def test_a_file_of_ones_own(run, experiment, files):
    table = files["my.csv"].rename(files["my.csv"].with_name('odd "name" = 1.csv'))
    result = run("train", "--data", table, "--schema", files["my.toml"], "--target", "y")
    assert result.exit_code == 0, result.output
    call = experiment.calls[0]
    data = call["config"].data
    assert data.name is None
    assert (data.path, data.schema_path, data.target) == (str(table), str(files["my.toml"]), "y")
    assert call["output"].name.startswith('odd "name" = 1-')


@pytest.mark.parametrize("target", ["1", "true", "[x", "a.b", ""])
def test_a_target_is_text_whatever_it_looks_like(run, experiment, files, target):
    run("train", "--data", files["my.csv"], "--schema", files["my.toml"], "--target", target)
    assert experiment.calls[0]["config"].data.target == target


def test_plain_output_has_a_line_an_epoch_and_the_table(run, experiment):
    text = run("train", "--output", "out").stdout
    assert "epoch 1/2  epsilon 4.0000  held-out accuracy 0.5000" in text
    assert "epoch 2/2  epsilon 5.0000" in text
    assert "\x1b" not in text
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert lines["test"][1:3] == ["0.8412", "0.8923"]
    assert lines["majority class"][2:4] == ["0.7607", "-"]
    assert lines["logistic regression"][2:4] == ["0.8501", "0.9034"]
    assert lines["certified at 0.1"][3:5] == ["0.79", "0.85"]
    assert "encoded row, L2" in text
    assert "not private, shown only here, in no file" in text
    assert "epsilon 7.98 at delta 1e-05" in text
    assert "out/result.json" in text
    assert "NOT PRIVATE" not in text


def test_the_baseline_stays_out_of_json(run, experiment):
    result = run("train", "--json")
    assert json.loads(result.stdout)["spent"]["epsilon"] == 7.98
    assert "0.8501" not in result.stdout
    assert result.stderr == ""


def test_infinity_is_text_in_json_and_labelled_in_the_table(run, experiment):
    experiment.fields["spent"] = {**experiment.fields["spent"], "epsilon": "inf"}
    assert json.loads(run("train", "--json", "--output", "a").stdout)["spent"]["epsilon"] == "inf"
    assert "NOT PRIVATE" in run("train", "--output", "b").stdout


def test_no_baseline_no_row(run, experiment):
    experiment.baseline = None
    assert "logistic" not in run("train").stdout


def test_quiet_writes_nothing(run, experiment):
    result = run("train", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert len(experiment.calls) == 1


def test_quiet_still_writes_errors(refused, experiment):
    experiment.error = InvalidValue("Too many rows", received=3, fix="Give fewer")
    assert "Too many rows. Received: 3. Give fewer." in refused("train", "--quiet")


def test_a_lost_ledger_is_passed_on(run, experiment):
    assert run("train", "--output", "out", "--ledger-lost").exit_code == 0
    assert run("train", "--resume", "other", "--ledger-lost").exit_code == 0
    assert run("train", "--resume", "third").exit_code == 0
    assert [call["ledger_lost"] for call in experiment.calls] == [True, True, False]


def test_overwrite_is_passed_on(run, experiment):
    run("train", "--overwrite", "--output", "out")
    assert experiment.calls[0]["overwrite"] is True
    assert experiment.calls[0]["output"] == Path("out")


def test_the_backend_is_kept_quiet_unless_the_user_chose(run, experiment, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    run("train", "--output", "a")
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    run("train", "--output", "b")
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"


def test_a_file_without_a_schema_names_the_command_that_begins_one(refused, experiment, files):
    text = refused("train", "--data", files["my.csv"], "--target", "y")
    assert f"lipdp schema {files['my.csv']} --target y > my.toml" in text
    text = refused("train", "--data", files["my.csv"])
    assert f"lipdp schema {files['my.csv']} --target NAME > my.toml" in text
    assert experiment.calls == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.toml"], ["nowhere.toml", "does not exist"]),
        (["--data", "nowhere.csv"], ["nowhere.csv", "does not exist"]),
        (["--target", "y"], ["--data FILE", "'y'"]),
        (["--epsilon", "0"], ["privacy.epsilon", "0"]),
        (["--epsilon", "-1"], ["privacy.epsilon", "-1"]),
        (["--epsilon", "nan"], ["privacy.epsilon", "nan"]),
        (["--epsilon", "inf"], ["privacy.epsilon", "inf"]),
        (["--epsilon", "much"], ["--epsilon", "'much'"]),
        (["--delta", "1"], ["privacy.delta", "1"]),
        (["--noise-multiplier", "-1"], ["privacy.noise_multiplier", "-1"]),
        (["--preprocess", "pca"], ["--preprocess", "private-whiten"]),
        (["--preprocess-share", "1.5"], ["preprocess.share", "1.5"]),
        (["--set", "training.epochz=3"], ["epochz", "epochs"]),
        (["--set", "training"], ["key=value", "training"]),
        (["--set", "data.name="], ["data.name", "data.path"]),
    ],
)
def test_bad_input_is_refused_before_training(refused, experiment, arguments, words):
    text = refused("train", *arguments)
    assert all(word in text for word in words), text
    assert experiment.calls == []


def test_an_error_of_the_training_is_a_message(refused, experiment):
    experiment.error = BudgetExhausted("The budget is spent", received=8.0, fix="Allow more")
    assert "The budget is spent. Received: 8.0. Allow more." in refused("train")


def test_the_table_says_why_nothing_is_certified(run, experiment):
    reason = "Nothing is certified of 9 of 9 rows: the layer 'ids' has no finite constant"
    experiment.fields.update(certified=[], uncertified=reason)
    lines = run("train", "--output", "out").stdout.splitlines()
    assert [line.split("  ")[0] for line in lines if reason in line] == ["certified"]
