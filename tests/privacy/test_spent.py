"""What a folder has spent, whatever became of its runs."""

from __future__ import annotations

import json

import pytest

from lipdp.errors import InvalidData
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.spent import outputs_inside, runs_of, spent_by
from lipdp.results.unfinished import unfinished_folder
from tests.reports.conftest import sample
from tests.reports.saving import leave, save

FIELDS = sample()
CONFIG = FIELDS["config"]


def steps_of(output):
    return [(run.state, run.ledger.steps, run.in_result) for run in runs_of(output)]


def test_of_nothing_it_is_nothing(tmp_path):
    leave(tmp_path / "begun", CONFIG, 0)
    for name in ("absent", "begun"):
        assert runs_of(tmp_path / name) == [] and spent_by(tmp_path / name) is None


def test_a_finished_run(tmp_path):
    save(tmp_path / "a", FIELDS)
    assert steps_of(tmp_path / "a") == [("finished", 1000, True)]
    assert spent_by(tmp_path / "a").steps == 1000


def test_a_killed_run(tmp_path):
    leave(tmp_path / "a", CONFIG, 300)
    assert steps_of(tmp_path / "a") == [("unfinished", 300, False)]


@pytest.mark.parametrize(("steps", "in_result"), [(1000, True), (1200, False)])
def test_a_stopped_run_is_one_with_the_run_that_goes_on(tmp_path, steps, in_result):
    save(tmp_path / "a", FIELDS, interrupted=True)
    leave(tmp_path / "a", CONFIG, steps)
    assert steps_of(tmp_path / "a") == [("unfinished", steps, in_result)]
    assert spent_by(tmp_path / "a").steps == steps


@pytest.mark.parametrize("top", [{}, {"interrupted": True, "config": {"privacy": {}}}])
def test_two_runs_of_one_folder_add_up(tmp_path, top):
    """A finished run is replaced by another one, or a stopped one by one with other settings."""
    save(tmp_path / "a", FIELDS, **top)
    leave(tmp_path / "a", CONFIG, 300)
    assert steps_of(tmp_path / "a") == [("finished", 1000, True), ("unfinished", 300, False)]
    assert spent_by(tmp_path / "a").steps == 1300


def test_a_failed_trial_counts_until_there_is_a_result(tmp_path):
    folder = tmp_path / "trials" / "0"
    folder.mkdir(parents=True)
    ledger = PrivacyLedger()
    ledger.record(0.01, 1.0, 7)
    (folder / "privacy_ledger.json").write_text(ledger.to_json())
    assert steps_of(folder) == [("failed", 7, False)]
    leave(folder, CONFIG, 300)
    assert spent_by(folder).steps == 307
    assert outputs_inside(folder.parent) == [folder]
    save(folder, FIELDS)
    assert [run.state for run in runs_of(folder)] == ["finished", "unfinished"]


def test_a_ledger_alone_counts(tmp_path):
    leave(tmp_path / "a", CONFIG, 300)
    (unfinished_folder(tmp_path / "a") / "config.json").unlink()
    assert spent_by(tmp_path / "a").steps == 300
    save(tmp_path / "a", FIELDS, interrupted=True)
    assert spent_by(tmp_path / "a").steps == 1300


def lose(output):
    unfinished = unfinished_folder(output)
    (unfinished / "backup.privacy_ledger.json").unlink()
    (unfinished / "start.keras").write_text("")


def put_back(output):
    """An older copy of the ledger, behind the result of the same run."""
    save(output, FIELDS, interrupted=True)


def cut(output):
    (unfinished_folder(output) / "backup.privacy_ledger.json").write_text("{")


def without_settings(output):
    (unfinished_folder(output) / "config.json").write_text("{}")


def break_result(output):
    save(output, FIELDS)
    (output / "result.json").write_text("{}")


def fail_broken(output):
    output.mkdir()
    (output / "privacy_ledger.json").write_bytes(b"\xff{")


def of_an_early_version(output):
    save(output, FIELDS)
    result = json.loads((output / "result.json").read_text())
    del result["spent"]["ledger"]
    (output / "result.json").write_text(json.dumps(result))


@pytest.mark.parametrize(
    "damage",
    [lose, put_back, cut, without_settings, break_result, fail_broken, of_an_early_version],
)
def test_what_nobody_knows_is_refused(tmp_path, damage):
    output = tmp_path / "run"
    leave(output, CONFIG, 300)
    damage(output)
    with pytest.raises(InvalidData):
        spent_by(output)
