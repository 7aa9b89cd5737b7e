"""Titles that tell sections apart, and the trials of a sweep."""

from __future__ import annotations

from dataclasses import replace

from lipdp.reports.sections import sections
from lipdp.reports.words import names, settings_trials, titles


def test_sections_of_other_numbers_of_rows_have_titles_that_differ(make_run):
    def less(rows):
        return lambda fields: fields.update(training_rows=rows)

    found = sections([make_run("a", edit=less(1000)), make_run("b", edit=less(2000))])
    shown = sorted(title.replace("\u202f", "") for title in titles(found))
    assert shown == ["breast_cancer (3560 rows)", "breast_cancer (4560 rows)"]


def test_data_that_differ_need_no_more_than_their_names(make_run):
    def other(fields):
        fields["config"]["data"]["name"] = "other"

    found = sections([make_run(), make_run("b", edit=other)])
    assert names(found) == titles(found) == ["breast_cancer", "other"]


def test_no_two_titles_are_equal_even_if_nothing_known_differs(make_run):
    def elsewhere(fields):
        fields["config"]["data"]["labels"] = "other.npy"

    found = titles(sections([make_run(), make_run("b", edit=elsewhere)]))
    assert len(set(found)) == 2
    assert found[1].endswith(", part 2")


def test_settings_of_a_sweep_name_their_trials_and_the_chosen_one(make_run, tmp_path):
    runs = []
    for number, rate in ((3, 0.5), (7, 0.1)):
        edit = lambda fields, rate=rate: fields["config"]["optimizer"].update(learning_rate=rate)  # noqa: E731
        folder = tmp_path / "trials" / f"{number:03}"
        folder.mkdir(parents=True)
        runs.append(replace(make_run(f"{number:03}", edit=edit), folder=folder))
    (tmp_path / "trials" / "007" / "guarantee.txt").write_text("chosen")
    (section,) = sections(runs)
    assert settings_trials(section) == {1: "3", 2: "7 (chosen)"}


def test_runs_of_no_sweep_are_no_trials(make_run):
    (section,) = sections([make_run()])
    assert settings_trials(section) == {}
