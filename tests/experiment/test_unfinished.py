"""A run that was interrupted is finished by the same command, and counts what ran before."""

import json

import pandas as pd
import pytest

from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.experiment import train
from lipdp.privacy import PrivacyLedger

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


@pytest.mark.parametrize("after", [3, 2 * STEPS + 4, EPOCHS * STEPS])
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
    assert "1 access at" in words


def test_other_settings_do_not_continue_it(make_config, tmp_path):
    output = tmp_path / "run"
    interrupted(make_config(), output, STEPS)
    with pytest.raises(InvalidValue, match="unfinished run"):
        train(make_config("privacy.epsilon=3"), output)
    result = train(make_config("privacy.epsilon=3"), output, overwrite=True).result
    assert result.spent.epsilon <= 3.0


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
