"""Runs come back as they were written; whatever is no run is refused in words."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from lipdp.errors import InvalidData
from lipdp.reports import load_runs


@pytest.fixture
def write(tmp_path, result, history):
    def make(name):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        result.save(folder / "result.json")
        history.assign(loss=0.5, accuracy=0.5).to_csv(folder / "history.csv", index=False)
        return folder

    return make


def test_a_run_comes_back(write, result, history):
    folder = write("a")
    (run,) = load_runs([folder])
    assert (run.folder, run.result) == (folder, result)
    shown = ["epoch", "epsilon", "val_accuracy", "val_certified_accuracy"]
    pd.testing.assert_frame_equal(run.history, history[shown].astype(float))


def test_a_folder_of_runs_gives_its_runs_and_no_unfinished_ones(write, tmp_path):
    folders = [write(f"trials/{name}") for name in ("b", "a", ".c.1.partial")]
    (tmp_path / "trials" / "empty").mkdir()
    (tmp_path / "trials" / "note.txt").write_text("")
    found = load_runs([tmp_path / "trials"])
    assert [run.folder for run in found] == [folders[1], folders[0]]


def test_a_run_that_is_given_twice_counts_once(write, tmp_path):
    folder = write("trials/a")
    assert len(load_runs([folder, folder / ".." / "a", tmp_path / "trials"])) == 1


def test_no_history_is_no_error(write):
    folder = write("a")
    (folder / "history.csv").unlink()
    assert load_runs([folder])[0].history.empty
    (folder / "history.csv").write_text("")
    assert load_runs([folder])[0].history.empty


def test_results_of_early_versions_load(write):
    folder = write("a")
    fields = json.loads((folder / "result.json").read_text())
    for key in ("method", "peak_memory_bytes"):
        del fields[key]
    del fields["spent"]["ledger"]
    (folder / "result.json").write_text(json.dumps(fields))
    (run,) = load_runs([folder])
    assert (run.result.method, run.result.spent.ledger) == ("clipless", "")


def test_what_is_no_run_is_refused(write, tmp_path):
    folder = write("a")
    (tmp_path / "empty").mkdir()
    for path, words in (
        (tmp_path / "nowhere", "no such folder"),
        (tmp_path / "empty", "no finished run"),
        (folder / "result.json", "no such folder"),
    ):
        with pytest.raises(InvalidData, match=words):
            load_runs([path])
    with pytest.raises(InvalidData, match="no runs"):
        load_runs([])
    (folder / "history.csv").write_text("epoch,epsilon\n1,much\n")
    with pytest.raises(InvalidData, match="history"):
        load_runs([folder])
    (folder / "result.json").write_text("{}")
    with pytest.raises(InvalidData, match="not the result"):
        load_runs([folder])
