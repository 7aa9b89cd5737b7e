"""The report over several runs: whole, safe, honest about privacy and choice."""

from __future__ import annotations

import itertools
import re

import pytest

from lipdp.errors import InvalidData, InvalidValue
from lipdp.reports import pareto, write_pareto_report


def no_privacy(fields):
    fields["method"] = "none"
    fields["spent"]["epsilon"] = "inf"
    fields["spent"]["ledger"] = ""
    fields["statement"] = "NOT PRIVATE\n  - no noise was added"


@pytest.fixture
def render(tmp_path, read_page):
    def make(runs):
        path = tmp_path / "report.html"
        write_pareto_report(runs, path)
        return read_page(path)

    return make


@pytest.fixture
def words(render, monkeypatch):
    """Renders without figures, which take most of the time."""
    for name, nothing in (
        ("front_figure", ""),
        ("robustness_figure", ""),
        ("learning_figures", []),
    ):
        monkeypatch.setattr(pareto, name, lambda *_, nothing=nothing: nothing)
    return lambda runs: " ".join(render(runs)[1].text.split())


@pytest.fixture
def several(make_run):
    """Two methods, three epsilons, two seeds, and a reference."""
    runs = [make_run("plain", accuracy=0.9, edit=no_privacy)]
    for (epsilon, accuracy), seed in itertools.product(((1.0, 0.8), (3.0, 0.84)), range(2)):
        for method, less in (("clipless", 0.0), ("dp-sgd", 0.02)):
            exact = accuracy - less + seed / 100
            name = f"{method}-{epsilon:g}-{seed}"
            runs.append(make_run(name, epsilon, exact, seed, method=method))
    return runs


def test_on_paper_tables_are_whole_and_nothing_is_hidden_behind_a_scroll(several, render):
    rules = render(several)[0].split("@media print {")[1].split("</style>")[0]
    shown = {rule.split("{")[0].strip(): rule.split("{")[1] for rule in rules.split("}")[:-2]}
    assert "overflow: visible" in shown[".scroll"]
    assert "break-inside: avoid" in shown[".card, figure, tr"]
    assert "display: none" in shown["nav, .screen"]


def test_one_file_that_loads_nothing(several, render, tmp_path):
    html, page = render(several)
    assert {p.name for p in tmp_path.iterdir()} == {"report.html", "report.csv", "report.json"}
    assert not re.search("https?://", html.replace('xmlns="http://www.w3.org/2000/svg"', ""))
    assert "@import" not in html
    assert "url(" not in html.split("</style>")[0]
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not [attrs for _, attrs in page.tags if attrs.get("src")]


def test_accessible_structure_and_anchors_that_lead_somewhere(several, render):
    _, page = render(several)
    assert page.attributes("html")[0]["lang"] == "en"
    assert len(page.attributes("h1")) == 1
    assert all(th.get("scope") in {"row", "col", "colgroup"} for th in page.attributes("th"))
    assert len(page.attributes("caption")) == len(page.attributes("table"))
    assert all(f["role"] == "img" and f["aria-label"] for f in page.attributes("svg"))
    ids = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    links = {a["href"].removeprefix("#") for a in page.attributes("a")}
    assert links <= set(ids)
    assert {s["aria-labelledby"] for s in page.attributes("section")} <= set(ids)
    assert len([link for link in links if link.startswith("statement-")]) == 2


def test_the_summary_is_made_of_the_numbers(several, words):
    text = words(several)
    assert "test accuracy reached 80.5 % at ε = 1 and 84.5 % at ε = 3 with clipless" in text
    assert "78.5 % at ε = 1 and 82.5 % at ε = 3 with DP-SGD" in text
    assert "90.0 % (without privacy), 62.7 % (always answering the most frequent class)" in text
    assert "80.50 ± 6.35" in text
    assert "leave these numbers out of what you publish" in text
    assert "That is optimistic" in text


def test_both_costs_are_shown(make_run, words):
    def reference(fields):
        fields["spent"]["epsilon"] = 1.8282

    text = words([make_run(f"r{s}", 1.83, seed=s, edit=reference) for s in range(10)])
    assert "all 10 private runs together cost ε = 6.188" in text
    assert "One run alone costs at most ε = 1.83" in text
    assert "1.829" in text  # what a run spent, in the table of runs


def test_one_run_alone_has_no_interval_and_says_so(make_run, words):
    text = words([make_run()])
    assert "one run, no interval" in text
    assert "The one private run costs ε = 1 at δ = 1e-05" in text
    assert "±" not in text.split("How to read it")[0]


def test_wide_intervals_are_cut_and_explained(make_run, words):
    text = words([make_run(accuracy=0.05), make_run("b", accuracy=0.63, seed=1)])
    assert "34.00 (0.00\u2013100.00)" in text
    assert "In brackets: intervals that would leave" in text
    calm = words([make_run(), make_run("b", accuracy=0.851, seed=1)])
    assert "In brackets" not in calm


def test_the_method_of_a_certificate_is_named_where_there_are_several(several, make_run, words):
    assert "At ε = 3 with DP-SGD, " in words(several)
    assert "At ε = 1, " in words([make_run()])


def test_one_run_has_one_price(make_run, words):
    text = words([make_run(epsilon=3.0)])
    assert "The one private run ε = 3 at δ" in text
    assert "the one private run 1 3 3" in text
    assert "1 private runs" not in text
    assert "1 run took" in text


def test_only_references_still_make_a_page(make_run, render):
    _, page = render([make_run(edit=no_privacy)])
    assert "No run here was trained with privacy" in page.text
    assert "private runs together" not in page.text


def test_seeded_runs_are_called_not_private(make_run, words):
    def seeded(fields):
        fields["config"]["privacy"]["seed"] = 1

    text = words([make_run(edit=seeded), make_run("b", seed=1, edit=seeded)])
    assert "Not private: 2 of the runs." in text
    assert "with clipless (not private)" in text
    assert "Not private" not in words([make_run()])


def test_data_sets_stand_apart(make_run, render):
    def other(fields):
        fields["config"]["data"]["name"] = "other"

    _, page = render([make_run(), make_run("b", edit=other)])
    assert [h["id"] for h in page.attributes("h2")][:2] == ["s1", "s2"]
    assert "On breast_cancer" in page.text
    assert "On other" in page.text


def test_validation_rows_are_called_so_and_stand_apart_from_test_rows(make_run, words):
    def validated(fields):
        fields["config"]["data"]["validation_fraction"] = 0.2

    text = words([make_run(), make_run("b", edit=validated)])
    assert "On breast_cancer, test accuracy reached" in text
    assert "On breast_cancer, validation accuracy reached" in text
    assert "breast_cancer, validation rows" in text
    assert "the test rows stayed unread" in text
    assert text.count("Other parts of this report use rows of the same data.") == 2


def test_sections_of_one_data_set_have_titles_that_differ(make_run, words):
    strict = make_run("b", edit=lambda f: f["spent"].update(delta=1e-6))
    text = words([make_run(), strict])
    assert "breast_cancer (δ = 1e-05, one row added or removed)" in text
    assert "breast_cancer (δ = 1e-06, one row added or removed)" in text


def test_runs_that_were_stopped_are_marked(make_run, render):
    _, page = render([make_run(), make_run("b", seed=1, interrupted=True)])
    assert (
        page.text.count("stopped early") == 3
    )  # by epsilon, on the front of three, among all runs


def test_radii_of_different_units_are_in_different_figures(make_run, render):
    def pixels(fields):
        for certified in fields["certified"]:
            certified |= {"unit": "pixels", "radius": certified["radius"] * 10}

    _, page = render([make_run(), make_run("b", 3.0, edit=pixels)])
    named = [f["aria-label"] for f in page.attributes("svg") if "radius" in f["aria-label"]]
    assert len(named) == 2
    assert "pixels. Radii of other units" in page.text


def test_bare_runs_of_early_versions(make_run, render):
    def bare(fields):
        fields |= {"config": {}, "plan": {}, "certified": [], "versions": {}}
        fields["test"]["auroc"] = None
        fields["spent"]["ledger"] = ""

    import pandas as pd

    run = make_run(edit=bare, history=pd.DataFrame())
    _, page = render([run, make_run("b", edit=bare, history=pd.DataFrame())])
    text = " ".join(page.text.split())
    assert "2 runs come from an early version" in text
    assert "No run was certified." in text
    assert "Learning curves" not in text


def test_hostile_names_are_text(make_run, render):
    hostile = '<script>alert("x")</script>'

    def edit(fields):
        fields["statement"] = hostile
        fields["config"]["data"]["name"] = hostile
        fields["config"]["model"][hostile] = hostile
        fields["spent"]["accountant"] = hostile
        fields["versions"]["lipdp"] = hostile
        for certified in fields["certified"]:
            certified["unit"] = hostile

    html, page = render([make_run(hostile, method=hostile, edit=edit), make_run("b")])
    assert "<script" not in html
    assert page.text.count(hostile) >= 8


def test_a_name_that_looks_like_mathematics_is_text(make_run, render):
    html, _ = render([make_run(method="$x_{$"), make_run("b", method="clipless")])
    assert "$x_{$" in html.split("<svg", 1)[1].split("</svg>")[0]


def test_a_run_that_spent_nothing_is_drawn_too(make_run, render):
    def nothing(fields):
        fields["config"]["privacy"] |= {"epsilon": None, "noise_multiplier": 1.0}
        fields["spent"]["epsilon"] = 0.0

    _, page = render([make_run(edit=nothing)])
    assert page.attributes("svg")


def test_metrics_of_training_rows_reach_no_file(make_run, history, render, tmp_path):
    history["loss"], history["accuracy"] = 0.987654, 0.876543
    render([make_run(history=history)])
    for path in tmp_path.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "987654" not in text
        assert "876543" not in text


def test_sixty_settings_fit_on_a_page(make_run, render):
    def setting(width):
        def edit(fields):
            fields["config"]["model"]["units"] = [width]

        return edit

    runs = [
        make_run(f"r{i}", 1.0 + i % 20, 0.8 + i / 1000, i, edit=setting(i % 30)) for i in range(60)
    ]
    html, page = render(runs)
    assert len(html) < 3_000_000
    assert len(page.attributes("svg")) == 5
    assert page.text.count("r59") >= 2


def test_wrong_paths_and_nothing_to_report(make_run, tmp_path):
    with pytest.raises(InvalidValue, match=r"end with \.html"):
        write_pareto_report([make_run()], tmp_path / "report.csv")
    with pytest.raises(InvalidValue, match="at least one run"):
        write_pareto_report([], tmp_path / "report.html")
    broken = make_run(edit=lambda f: f["spent"].update(ledger="{}"))
    with pytest.raises(InvalidData, match="ledger"):
        write_pareto_report([broken], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
