"""A run that was interrupted is finished by the same command, and counts what ran before."""

import contextlib
import importlib
import json

import pandas as pd
import pytest

from lipdp.errors import (
    BudgetExhausted,
    InvalidConfig,
    InvalidData,
    InvalidState,
    InvalidValue,
    UnsafeSetting,
)
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.spent import unfinished_ledger
from lipdp.run import resume, train
from lipdp.run.callbacks import DivergenceCallback
from lipdp.run.data import prepare_rows
from lipdp.run.folder import locked
from lipdp.training.ledger_file import remove_lock

EPOCHS, STEPS = 5, 6


class Interrupting:
    """Raises KeyboardInterrupt after some steps in all; counts the steps that it saw."""

    def __init__(self, after=None):
        self.after, self.steps, self.epochs = after, 0, []

    def on_start(self, plan, total_epochs, steps_per_epoch):
        assert steps_per_epoch == STEPS

    def on_step(self, epoch, step):
        self.steps += 1
        if self.steps == self.after:
            raise KeyboardInterrupt

    def on_epoch(self, epoch, logs):
        self.epochs.append(epoch)

    def on_message(self, text):
        pass


def interrupted(config, output, after):
    ears = Interrupting(after)
    with pytest.raises(KeyboardInterrupt):
        train(config, output, listener=ears)
    assert not output.exists()
    return ears


@pytest.mark.parametrize(
    "after",
    [
        2 * STEPS + 4,
        pytest.param(3, marks=pytest.mark.slow),
        pytest.param(EPOCHS * STEPS, marks=pytest.mark.slow),
    ],
)
def test_the_same_command_finishes_it(make_config, tmp_path, after):
    config, output = make_config(), tmp_path / "run"
    first = interrupted(config, output, after)
    second = Interrupting()
    result = train(config, output, listener=second).result
    ran = first.steps + second.steps
    # What ran before the interruption and was lost is counted, and the budget holds all the same.
    assert result.spent.steps == ran == EPOCHS * STEPS
    assert 7.9 <= result.spent.epsilon <= 8.0
    history = pd.read_csv(output / "history.csv")
    assert history["epoch"].is_monotonic_increasing and history["epoch"].is_unique
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert "unfinished" not in json.dumps(json.loads((output / "result.json").read_text()))


@pytest.mark.slow
def test_private_statistics_are_released_once(make_config, tmp_path):
    config, output = make_config("preprocess.kind=private-standardize"), tmp_path / "run"
    interrupted(config, output, STEPS + 1)
    result = train(config, output).result
    assert result.spent.epsilon <= 8.0
    words = " ".join(result.statement.split())
    assert words.count("private mean and scale") == 1
    assert "accesses: 1" in words


def test_other_settings_do_not_continue_it(make_config, tmp_path):
    output = tmp_path / "run"
    interrupted(make_config(), output, STEPS)
    with pytest.raises(InvalidValue, match="unfinished run"):
        train(make_config("privacy.epsilon=3"), output)
    result = train(make_config("privacy.epsilon=3"), output, overwrite=True).result
    assert result.spent.epsilon <= 3.0


def test_nothing_is_thrown_away_before_another_run_begins(make_config, tmp_path):
    output = tmp_path / "run"
    interrupted(make_config(), output, STEPS)
    spent = unfinished_ledger(output).steps
    bad = make_config("data.target=nowhere")
    with pytest.raises(InvalidConfig):
        train(bad, output, overwrite=True)
    assert unfinished_ledger(output).steps == spent > 0
    # The first one goes on as if nothing had been.
    assert train(make_config(), output).result.spent.steps == EPOCHS * STEPS


def test_one_process_at_a_time_trains_a_run(make_config, tmp_path):
    output = tmp_path / "run"
    interrupted(make_config(), output, STEPS)
    held = locked(tmp_path / ".run.unfinished")
    for options in ({}, {"overwrite": True}):
        with pytest.raises(InvalidState, match="Another process"):
            train(make_config(), output, **options)
    with pytest.raises(InvalidState, match="Another process"):
        train(make_config("privacy.epsilon=3"), output, overwrite=True)
    assert unfinished_ledger(output).steps > 0
    remove_lock(held)
    assert train(make_config(), output).result.spent.steps == EPOCHS * STEPS


def test_two_that_begin_at_once_do_not_disturb_each_other(make_config, tmp_path, monkeypatch):
    """The folder of the other run comes into being while this one reads its rows."""
    folder = tmp_path / ".run.unfinished"
    held = []

    def read(config):
        folder.mkdir()
        (folder / "backup.privacy_ledger.json").write_text("of the other run")
        held.append(locked(folder))
        return prepare_rows(config)

    monkeypatch.setattr(importlib.import_module("lipdp.run.train"), "prepare_rows", read)
    with pytest.raises(InvalidState, match="Another process"):
        train(make_config(), tmp_path / "run")
    remove_lock(held[0])
    assert [path.name for path in folder.iterdir()] == ["backup.privacy_ledger.json"]


def test_a_line_that_a_full_disk_cut_costs_the_curve_a_point(make_config, tmp_path):
    output = tmp_path / "run"
    interrupted(make_config(), output, 2 * STEPS + 1)
    with (tmp_path / ".run.unfinished" / "epochs.jsonl").open("a") as file:
        file.write('{"epoch": 2, "eps\n[1]\n')
    train(make_config(), output)
    assert len(pd.read_csv(output / "history.csv")) == EPOCHS


def test_a_failure_before_the_first_step_leaves_nothing(make_config, tmp_path):
    config = make_config("optimizer.loss_scale_factor=2.0")
    with pytest.raises(UnsafeSetting):
        train(config, tmp_path / "run")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.toml"]


def test_what_it_keeps_holds_no_exact_training_numbers(make_config, tmp_path):
    interrupted(make_config(), tmp_path / "run", 2 * STEPS + 1)
    folder = tmp_path / ".run.unfinished"
    rows = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2]
    assert all(k in ("epoch", "epsilon") or k.startswith("val_") for row in rows for k in row)
    ledger = PrivacyLedger.from_json((folder / "backup.privacy_ledger.json").read_text())
    assert ledger.steps == 2 * STEPS + 1


class ClosedPipe(Interrupting):
    """Raises what a closed pipe raises, at some message or step."""

    def __init__(self, message=None, after=None):
        super().__init__(after)
        self.message = message

    def on_step(self, epoch, step):
        self.steps += 1
        if self.steps == self.after:
            raise BrokenPipeError

    def on_message(self, text):
        if self.message is not None and text.startswith(self.message):
            raise BrokenPipeError


def test_a_closed_pipe_before_the_first_step_leaves_nothing(make_config, tmp_path):
    for message in ("the run lies", "calibrating"):
        with pytest.raises(BrokenPipeError):
            train(make_config(), tmp_path / "run", listener=ClosedPipe(message))
        assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.toml"]


def test_a_closed_pipe_after_a_step_keeps_what_it_spent_and_its_time(make_config, tmp_path):
    with pytest.raises(BrokenPipeError):
        train(make_config(), tmp_path / "run", listener=ClosedPipe(after=2))
    assert unfinished_ledger(tmp_path / "run").steps >= 2
    assert float((tmp_path / ".run.unfinished" / "seconds.json").read_text()) > 0.0
    with pytest.raises(InvalidValue, match="is spent"):
        train(make_config("privacy.epsilon=3"), tmp_path / "run")


def test_seconds_are_on_disk_after_each_epoch(make_config, tmp_path):
    path, seen = tmp_path / ".run.unfinished" / "seconds.json", []

    class Ears(Interrupting):
        def on_epoch(self, epoch, logs):
            seen.append(float(path.read_text()))

    result = train(make_config(), tmp_path / "run", listener=Ears()).result
    assert len(set(seen)) == EPOCHS and seen == sorted(seen)
    assert seen[-1] <= result.seconds + 0.1


def test_damaged_seconds_are_named(make_config, tmp_path):
    interrupted(make_config(), tmp_path / "run", STEPS)
    path = tmp_path / ".run.unfinished" / "seconds.json"
    for text in ("{", "-1", "NaN", "[]"):
        path.write_text(text)
        with pytest.raises(InvalidData, match=r"seconds\.json"):
            resume(tmp_path / "run")


def test_a_spent_budget_without_a_backup_keeps_its_ledger(make_config, tmp_path):
    config = make_config("training.epochs=1")
    interrupted(config, tmp_path / "run", STEPS)
    (tmp_path / ".run.unfinished" / "epochs.jsonl").unlink(missing_ok=True)
    with contextlib.suppress(BudgetExhausted):
        train(config, tmp_path / "run")
    assert unfinished_ledger(tmp_path / "run").steps == STEPS


@pytest.mark.parametrize("rate", ["inf", "nan", "0.0", "-1.0"])
def test_a_hopeless_learning_rate_spends_nothing(make_config, tmp_path, rate):
    with pytest.raises(InvalidConfig, match="learning_rate"):
        train(make_config(f"optimizer.learning_rate={rate}"), tmp_path / "run")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.toml"]


def test_a_diverged_run_says_so_and_stops_spending(make_config, tmp_path, monkeypatch):
    check = DivergenceCallback.on_epoch_end

    def spoil(self, epoch, logs=None):
        if epoch == 1:
            variable = self.model.trainable_variables[0]
            variable.assign(variable * float("nan"))
        check(self, epoch, logs)

    monkeypatch.setattr(DivergenceCallback, "on_epoch_end", spoil)
    with pytest.raises(InvalidState, match="weights are not finite") as caught:
        train(make_config(), tmp_path / "run")
    message = str(caught.value)
    assert f"{2 * STEPS} steps spent epsilon" in message and "learning_rate" in message
    assert str(tmp_path / ".run.unfinished" / "backup.privacy_ledger.json") in message
    assert unfinished_ledger(tmp_path / "run").steps == 2 * STEPS
