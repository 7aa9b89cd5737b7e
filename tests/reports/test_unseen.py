"""What was spent beside finished runs is counted, named or refused, never left out in silence."""

from __future__ import annotations

import pytest

from lipdp.errors import InvalidData
from lipdp.privacy.spent import runs_of
from lipdp.reports import load_runs, notes_on_unseen
from tests.reports.saving import leave, save, spent


def test_unfinished_runs_are_not_left_out_silently(tmp_path, fields):
    runs = tmp_path / "runs"
    save(runs / "k1", fields)
    leave(runs / "k2", fields["config"], 0)
    assert len(load_runs([runs])) == 1
    leave(runs / "k3", fields["config"], 5)
    with pytest.raises(InvalidData, match="nfinished") as caught:
        load_runs([runs])
    assert "k3" in str(caught.value) and "k2" not in str(caught.value)
    assert len(load_runs([runs / "k1"])) == 1


def test_a_stopped_run_counts_unless_it_went_on(tmp_path, fields):
    config, runs = fields["config"], tmp_path / "runs"
    save(runs / "same", fields, interrupted=True)
    leave(runs / "same", config, 1000)
    assert len(load_runs([runs])) == 1
    save(runs / "further", fields, interrupted=True)
    leave(runs / "further", config, 1001)
    save(runs / "replaced", fields)
    leave(runs / "replaced", config, 3)
    for given in ([runs], [runs / "further"], [runs / "replaced"]):
        with pytest.raises(InvalidData, match="nfinished"):
            load_runs(given)


def test_the_broken_ledger_of_an_unfinished_run_is_refused(tmp_path, fields):
    save(tmp_path / "a", fields)
    leave(tmp_path / "b", fields["config"], 5)
    (tmp_path / ".b.unfinished" / "backup.privacy_ledger.json").write_text("{")
    with pytest.raises(InvalidData, match="not whole"):
        load_runs([tmp_path])


def fail(folder, steps=5):
    """What a trial leaves that failed."""
    folder.mkdir(parents=True)
    (folder / "privacy_ledger.json").write_text(spent(steps).to_json())


def test_failed_trials_are_not_left_out_silently(tmp_path, fields):
    trials = tmp_path / "trials"
    save(trials / "0", fields)
    fail(trials / "1", steps=0)
    fail(trials / ".2.partial")
    assert len(load_runs([trials])) == 1
    fail(trials / "3")
    for given in ([trials], [trials / "0", trials / "3"]):
        with pytest.raises(InvalidData, match="failed runs") as caught:
            load_runs(given)
        assert str(trials / "3") in str(caught.value)
        assert str(trials / "1") not in str(caught.value)
    assert len(load_runs([trials / "0"])) == 1


def test_a_result_says_what_the_ledger_of_its_trial_says(tmp_path, fields):
    fail(tmp_path / "a")
    save(tmp_path / "a", fields)
    assert len(load_runs([tmp_path])) == 1
    assert [run.state for run in runs_of(tmp_path / "a")] == ["finished"]


def test_what_lies_beside_is_named(tmp_path, fields):
    save(tmp_path / "a", fields)
    save(tmp_path / "b", fields)
    assert notes_on_unseen([tmp_path / "a"]) == []
    leave(tmp_path / "c", fields["config"], 5)
    fail(tmp_path / "d")
    leave(tmp_path / "broken", fields["config"], 5)
    (tmp_path / ".broken.unfinished" / "backup.privacy_ledger.json").write_text("{")
    (note,) = notes_on_unseen([tmp_path / "a", tmp_path / "b"])
    named = note.rstrip(".").split("They are: ")[1].split(", ")
    assert named == [str(tmp_path / name) for name in ("broken", "c", "d")]
