"""Runs come back as they were written; whatever is no run is refused in words."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from lipdp._version import __version__
from lipdp.errors import InvalidData
from lipdp.reports import load_runs
from tests.reports.saving import save, spent


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


@pytest.mark.parametrize("epsilon", [0.1, 5.0, float("inf")])
def test_an_epsilon_that_the_ledger_does_not_imply_is_refused(tmp_path, fields, epsilon):
    save(tmp_path / "a", fields, epsilon=epsilon)
    with pytest.raises(InvalidData) as caught:
        load_runs([tmp_path / "a"])
    message = str(caught.value)
    assert repr(epsilon) in message and repr(spent().epsilon(1e-5)) in message


def test_versions_of_the_accountant_may_be_apart_a_little(tmp_path, fields, monkeypatch):
    monkeypatch.setattr("lipdp.reports.loading.version", lambda name: "1")
    near = spent().epsilon(1e-5) * 0.97
    save(tmp_path / "a", fields, epsilon=near)
    assert load_runs([tmp_path / "a"])[0].result.spent.epsilon == near
    same = {"lipdp": __version__, "dp-accounting": "1"}
    save(tmp_path / "a", fields, epsilon=near, versions=same)
    with pytest.raises(InvalidData, match="ledger implies"):
        load_runs([tmp_path / "a"])


def test_a_broken_ledger_is_refused_with_its_file(tmp_path, fields):
    save(tmp_path / "a", fields)
    path = tmp_path / "a" / "result.json"
    path.write_text(path.read_text().replace("1000", "10"))
    with pytest.raises(InvalidData, match=r"result\.json"):
        load_runs([tmp_path / "a"])
