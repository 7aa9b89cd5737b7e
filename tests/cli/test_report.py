"""``lipdp report``: three files, a table, and refusals in words."""

from __future__ import annotations

import json

import pytest

from lipdp.privacy import PrivacyLedger
from lipdp.results import RunResult


@pytest.fixture
def write(tmp_path, experiment):
    def make(name, **changes):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        fields = {**experiment.fields, "name": name, **changes}
        RunResult.model_validate(fields).save(folder / "result.json")
        return folder

    return make


def test_it_writes_three_files_and_says_where(run, write, tmp_path):
    result = run("report", write("runs/a"), write("runs/b"), "-o", "out.html")
    assert result.exit_code == 0, result.output
    for name in ("out.html", "out.csv", "out.json"):
        assert name in result.stdout
        assert (tmp_path / name).stat().st_size
    assert "0.8412" in result.stdout
    assert "all 2 private runs together epsilon 15.96 at delta 2e-05" in result.stdout


def test_a_folder_of_runs_and_the_default_name(run, write, tmp_path):
    write("runs/a")
    write("runs/b")
    assert run("report", "runs").exit_code == 0
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["sections"][0]["cells"][0]["runs"] == ["runs/a", "runs/b"]


def test_json_alone(run, write, tmp_path):
    result = run("report", write("a"), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads((tmp_path / "report.json").read_text())


def test_quiet_writes_the_files_alone(run, write, tmp_path):
    result = run("report", write("a"), "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("name", ["report.html", "report.csv", "report.json"])
def test_nothing_is_replaced_unasked(run, write, tmp_path, name):
    folder = write("a")
    (tmp_path / name).write_text("mine")
    result = run("report", folder)
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert (tmp_path / name).read_text() == "mine"
    assert run("report", folder, "--overwrite").exit_code == 0
    assert (tmp_path / name).read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "no such folder"),
        (["."], "no finished run"),
        (["a", "-o", "out.pdf"], "end with .html"),
        (["a", "-o", "no/where/out.html"], "folder of the report does not exist"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(run, tmp_path, arguments, words):
    result = run("report", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_sections_on_the_same_data_add_up(run, write, experiment, tmp_path):
    strict = {**experiment.fields["spent"], "delta": 1e-6}
    said = run("report", write("a"), write("b", spent=strict)).stdout
    assert "so that their costs add up" in said
    sections = json.loads((tmp_path / "report.json").read_text())["sections"]
    assert [one["other_sections_on_these_data"] for one in sections] == [True, True]
    assert "add up" not in run("report", "a", "--overwrite").stdout


def test_one_run_is_told_one_price(run, write):
    text = run("report", write("a")).stdout
    assert "the one private run costs epsilon 8 at delta 1e-05" in text
    assert "together" not in text


def test_runs_that_were_stopped_and_sections_are_told_apart(run, write):
    write("runs/a")
    write("runs/b", interrupted=True)
    write("runs/c", training_rows=123456)
    text = run("report", "runs").stdout
    assert text.count("stopped early") == 1
    prices = [line.partition(":")[0] for line in text.splitlines() if "private run" in line]
    assert len(set(prices)) == 2


def test_a_place_that_refuses_files_is_a_sentence_with_the_path_that_was_given(
    run, write, monkeypatch
):
    def refuse(*_):
        raise FileNotFoundError(2, "No such file or directory", "/there/out.csv")

    folder = write("a")
    monkeypatch.setattr("lipdp.reports.write_pareto_report", refuse)
    result = run("report", folder, "-o", "out.html")
    assert result.exit_code == 2
    assert "cannot be written (No such file or directory). Received: 'out.html'." in result.stderr
    assert "Errno" not in result.stderr and "out.csv" not in result.stderr


def test_what_lies_beside_and_is_not_counted_is_named(run, write, tmp_path):
    folder = write("runs/a")
    book = PrivacyLedger()
    book.record(0.01, 1.0, 5)
    (tmp_path / "runs" / "b").mkdir()
    (tmp_path / "runs" / "b" / "privacy_ledger.json").write_text(book.to_json())
    result = run("report", folder, "-o", "out.html")
    assert result.exit_code == 0, result.output
    assert "Not counted here" in result.stdout and "runs/b" in result.stdout
    assert "Not counted here" in (tmp_path / "out.html").read_text()
    refused = run("report", "runs")
    assert (refused.exit_code, "have spent" in refused.stderr) == (2, True)
