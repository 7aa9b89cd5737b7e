"""Runs put together: reference values, delta, refusals."""

from __future__ import annotations

import json
import shutil

import pytest

from lipdp.privacy import PrivacyLedger, Terms, epsilon
from lipdp.results import RunResult


@pytest.fixture
def write(tmp_path, experiment):
    """``write(name, adjacency=..., delta=..., ...)``: the folder of a run."""

    def make(
        name, adjacency="add-remove", delta=1e-5, ledger=None, seed=None, group=None, **recorded
    ):
        if ledger is None:
            book = PrivacyLedger(adjacency)
            book.record(0.01, 1.0, **{"steps": 1000, **recorded})
            ledger = book.to_json()
        spent = {
            **experiment.fields["spent"],
            "adjacency": adjacency,
            "delta": delta,
            "ledger": ledger,
        }
        config = {"privacy": {"epsilon": 8.0, "seed": seed}, "data": {"group": group}}
        folder = tmp_path / name
        folder.mkdir()
        whole = RunResult.model_validate({**experiment.fields, "spent": spent, "config": config})
        whole.save(folder / "result.json")
        return folder

    return make


def read(run, *arguments):
    result = run("account", "runs", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_ten_runs_cost_their_composition(run, write):
    folders = [write(f"run{i}") for i in range(10)]
    found = read(run, *folders)
    assert 6.1876 <= found["epsilon"] <= 6.1977
    assert [one["folder"] for one in found["runs"]] == [str(folder) for folder in folders]
    for one in found["runs"]:
        assert 1.8281 <= one["epsilon"] <= 1.8382
        assert (one["steps"], one["seeded"]) == (1000, False)
    assert (found["delta"], found["accountant"], found["adjacency"]) == (1e-5, "pld", "add-remove")


def test_one_run_costs_what_it_says(run, write):
    found = read(run, write("a"))
    assert found["epsilon"] == found["runs"][0]["epsilon"]


def test_everything_in_a_ledger_counts(run, write):
    book = PrivacyLedger()
    book.record(0.01, 1.0, 1000, overflow_probability=1e-9)
    book.record(1.0, 20.0, purpose="a private mean")
    found = read(run, write("a", ledger=book.to_json()))
    assert found["epsilon"] == book.epsilon(1e-5)
    assert found["runs"][0]["steps"] == 1000


def test_the_largest_delta_of_the_runs_is_the_default(run, write):
    folders = [write("a", delta=1e-6), write("b", delta=1e-5)]
    assert read(run, *folders)["delta"] == 1e-5
    strict = read(run, *folders, "--delta", "1e-6")
    assert strict["delta"] == 1e-6
    assert strict["epsilon"] > read(run, *folders)["epsilon"]


def test_the_accountant_is_passed_on(run, write):
    found = read(run, write("a"), "--accountant", "rdp")
    assert found["method"] == "Renyi divergences"
    assert 2.1 <= found["epsilon"] <= 2.11


def test_in_words(run, write):
    folders = [write("a"), write("b", seed=3)]
    result = run("account", "runs", *folders)
    assert result.exit_code == 0
    assert f"all together: epsilon {read(run, *folders)['epsilon']:.6g}" in result.stdout
    assert "NOT PRIVATE" in result.stdout and "seed" in result.stdout
    assert result.stdout.count("NOT PRIVATE") == 1


def test_other_adjacencies_are_refused(run, write):
    result = run("account", "runs", write("a"), write("b", adjacency="zero-out"))
    assert result.exit_code == 2
    assert "different adjacencies" in result.stderr and "zero-out" in result.stderr


def test_other_units_are_refused(run, write):
    users = [write("a", group="user"), write("b", group="user")]
    assert read(run, *users)["epsilon"] > 2.0
    result = run("account", "runs", *users, write("c"))
    assert result.exit_code == 2
    assert "different units" in result.stderr


@pytest.mark.parametrize(
    ("ledger", "word"),
    [("", "no ledger"), ("{}", "lacks or adds fields"), ("cut", "not whole")],
)
def test_results_without_a_whole_ledger_are_refused(run, write, ledger, word):
    result = run("account", "runs", write("a"), write("b", ledger=ledger))
    assert result.exit_code == 2
    assert word in result.stderr


def test_folders_without_a_result_are_refused(run, write, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "missing"):
        result = run("account", "runs", write(f"a{folder.name}"), folder)
        assert result.exit_code == 2
        assert "result of a run" in result.stderr
    assert run("account", "runs").exit_code == 2


@pytest.mark.parametrize("delta", ["0", "1", "nan"])
def test_bad_deltas_are_refused(run, write, delta):
    result = run("account", "runs", write("a"), "--delta", delta)
    assert result.exit_code == 2
    assert "delta" in result.stderr


CONFIG = {"privacy": {"epsilon": 8.0, "delta": 1e-6, "seed": None}, "data": {"group": None}}


def leave(output, steps, config=CONFIG, after=None):
    """What a run that was killed leaves beside its folder."""
    folder = output.with_name(f".{output.name}.unfinished")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"lipdp": "0.0.1", "config": config}))
    book = PrivacyLedger() if after is None else PrivacyLedger.from_json(after)
    book.record(0.01, 1.0, steps)
    (folder / "backup.privacy_ledger.json").write_text(book.to_json())
    return output


def test_a_run_that_was_killed_counts_as_far_as_it_came(run, write, tmp_path):
    alone = read(run, leave(tmp_path / "k3", 1000))
    assert alone["delta"] == 1e-6
    assert (alone["runs"][0]["unfinished"], alone["runs"][0]["steps"]) == (True, 1000)
    both = read(run, write("a"), tmp_path / "k3")
    assert both["epsilon"] == read(run, write("b"), write("c"))["epsilon"]
    assert "k3 (unfinished)" in run("account", "runs", tmp_path / "k3").stdout


def test_a_result_and_another_unfinished_run_of_its_folder_both_count(run, write):
    folder = leave(write("a"), 1000)
    assert [one["unfinished"] for one in read(run, folder)["runs"]] == [False, True]


def test_a_stopped_run_that_went_on_counts_once(run, write):
    folder = write("a")
    result = RunResult.load(folder / "result.json")
    result.model_copy(update={"interrupted": True}).save(folder / "result.json")
    (one,) = read(run, leave(folder, 200, result.config, result.spent.ledger))["runs"]
    assert (one["steps"], one["unfinished"]) == (1200, True)


class TestSessions:
    """What runs hold in common counts once, wherever it lies."""

    def test_the_same_folder_twice(self, run, write, tmp_path):
        for folder in (write("a"), leave(tmp_path / "k", 1000), fail(tmp_path / "f")):
            alone = read(run, folder, "--delta", "1e-5")
            twice = read(run, folder, folder, "--delta", "1e-5")
            assert twice["epsilon"] == alone["epsilon"] and twice["shared"] == 1000
            assert alone["shared"] == 0 and len(twice["runs"]) == 2

    def test_a_run_and_its_copy(self, run, write, tmp_path):
        original = write("a")
        shutil.copytree(original, tmp_path / "copy")
        found = read(run, original, tmp_path / "copy")
        assert found["epsilon"] == read(run, original)["epsilon"]
        said = run("account", "runs", original, tmp_path / "copy").stdout
        assert "counted once" in said and "1000 were left out" in " ".join(said.split())
        assert "counted once" not in run("account", "runs", original, write("b")).stdout

    def test_two_forks_of_one_run(self, run, write, tmp_path):
        """200 steps together, then 300 each, are 800 and not 1000."""
        shared = PrivacyLedger()
        shared.record(0.01, 1.0, 200)
        forks = [leave(tmp_path / name, 300, after=shared.to_json()) for name in ("b", "c")]
        found = read(run, *forks, "--delta", "1e-5")
        assert found["epsilon"] == epsilon(0.01, 1.0, 800, 1e-5)
        assert found["epsilon"] < epsilon(0.01, 1.0, 1000, 1e-5)
        assert found["shared"] == 200

    def test_a_finished_run_and_what_it_went_on_from(self, run, write, tmp_path):
        killed = leave(tmp_path / "killed", 600)
        text = (tmp_path / ".killed.unfinished" / "backup.privacy_ledger.json").read_text()
        book = PrivacyLedger.from_json(text)
        book.record(0.01, 1.0, 400)
        finished = write("finished", ledger=book.to_json())
        assert read(run, killed, finished)["epsilon"] == epsilon(0.01, 1.0, 1000, 1e-5)

    def test_ledgers_of_an_earlier_version(self, run, write, tmp_path):
        """They hold sessions too."""
        from tests.privacy.test_ledger_text import EARLIER

        folders = [write(name, ledger=EARLIER["poisson"]) for name in ("a", "b")]
        assert read(run, *folders)["epsilon"] == read(run, folders[0])["epsilon"]
        other = write("c", ledger=EARLIER["statistics"])
        assert read(run, *folders, other)["epsilon"] > read(run, *folders)["epsilon"]


def test_a_ledger_behind_the_result_of_its_own_run_is_refused(run, write):
    """An older copy of the file was put back."""
    folder = write("a")
    result = RunResult.load(folder / "result.json")
    result.model_copy(update={"interrupted": True}).save(folder / "result.json")
    refused = run("account", "runs", leave(folder, 200, result.config))
    assert refused.exit_code == 2 and "holds less than the result" in refused.stderr


def test_a_missing_ledger_of_an_unfinished_run_is_refused(run, write, tmp_path):
    for name in ("start.keras", "backup"):
        folder = write(name)
        unfinished = leave(folder, 1000).with_name(f".{name}.unfinished")
        (unfinished / "backup.privacy_ledger.json").unlink()
        (unfinished / name).mkdir() if name == "backup" else (unfinished / name).write_text("")
        refused = run("account", "runs", folder)
        said = " ".join(refused.stderr.split())
        assert refused.exit_code == 2 and "its ledger file is missing" in said
        assert "backup.privacy_ledger.json" in "".join(refused.stderr.split())


def test_an_unfinished_run_that_spent_nothing_is_none(run, write, tmp_path):
    folder = write("a")
    unfinished = leave(folder, 1).with_name(".a.unfinished")
    (unfinished / "backup.privacy_ledger.json").write_text(PrivacyLedger().to_json())
    (unfinished / "start.keras").write_text("")
    assert len(read(run, folder)["runs"]) == 1


def test_an_unfinished_run_without_delta_asks_for_one(run, tmp_path):
    folder = leave(tmp_path / "k3", 10, {"privacy": {"delta": None}})
    result = run("account", "runs", folder)
    assert result.exit_code == 2 and "--delta" in result.stderr
    assert read(run, folder, "--delta", "1e-5")["delta"] == 1e-5


def fail(folder, unit="row", steps=1000):
    """What a trial leaves that failed: its ledger alone, in its own folder."""
    book = PrivacyLedger()
    book.record(0.01, 1.0, steps, terms=Terms(unit=unit))
    folder.mkdir(parents=True)
    (folder / "privacy_ledger.json").write_text(book.to_json())
    return folder


def test_a_failed_trial_counts(run, write, tmp_path):
    failed = fail(tmp_path / "failed", steps=3000)
    found = read(run, write("a"), failed)
    assert found["epsilon"] > read(run, write("b"))["epsilon"]
    assert [(one["steps"], one["unfinished"]) for one in found["runs"]][1] == (3000, True)
    assert f"{failed} (failed)" in run("account", "runs", write("c"), failed).stdout
    assert "no delta" in run("account", "runs", failed).stderr
    assert run("account", "runs", failed, "--delta", "1e-5").exit_code == 0


def test_a_failed_trial_of_another_unit_is_refused(run, write, tmp_path):
    users, rows = fail(tmp_path / "users", "user"), fail(tmp_path / "rows")
    assert run("account", "runs", write("a", group="person"), users).exit_code == 0
    for others in ([write("b"), users], [write("c", group="person"), rows], [users, rows]):
        result = run("account", "runs", *others, "--delta", "1e-5")
        assert (result.exit_code, "different units" in result.stderr) == (2, True)
