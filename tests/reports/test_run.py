"""The report: one safe file with every number, and honest about what it is not."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.reports import not_private_reason, write_report
from lipdp.reports.page import meaning, number_up, percent_up
from lipdp.results import RunResult


@pytest.fixture
def render(tmp_path, read_page):
    def make(fields, history):
        path = tmp_path / "report.html"
        write_report(RunResult.model_validate(fields), history, path)
        return read_page(path)

    return make


def test_one_file_that_loads_nothing(fields, history, tmp_path, render):
    html, page = render(fields, history)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert len(html) < 1_000_000
    assert "http" not in html
    assert "@import" not in html
    assert "url(" not in html.split("</style>")[0]
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not [attrs for _, attrs in page.tags if attrs.get("src")]
    assert all(attrs.get("href", "#").startswith("#") for _, attrs in page.tags)


def test_three_figures_are_inlined_and_ids_are_unique(fields, history, render):
    _, page = render(fields, history)
    figures = page.attributes("svg")
    assert len(figures) == 3
    assert all(f["role"] == "img" and f["aria-label"] for f in figures)
    ids = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))


def test_accessible_structure(fields, history, render):
    _, page = render(fields, history)
    assert page.attributes("html")[0]["lang"] == "en"
    assert len(page.attributes("h1")) == 1
    assert all(th.get("scope") in {"row", "col"} for th in page.attributes("th"))
    assert len(page.attributes("caption")) == len(page.attributes("table"))
    ids = {attrs["id"] for _, attrs in page.tags if attrs.get("id")}
    assert {s["aria-labelledby"] for s in page.attributes("section")} <= ids


def test_every_headline_number_and_the_whole_statement_are_there(fields, history, render):
    _, page = render(fields, history)
    for shown in ("91.2 %", "62.7 %", "0.9641", "1.987", "1e-05", "88.1 %", "84.2 %", "73.1 %"):
        assert shown in page.text
    shown = page.text.split()
    for word in fields["statement"].split():
        assert word == "-" or word in shown or word.removesuffix(":") in shown
    for key in ("training.batch_size", "loss.inverse_temperature", "model.units"):
        assert key in page.text
    assert "3.15.0" in page.text
    assert "What is not covered" in page.text
    assert "L2 distance of encoded rows" in page.text
    assert "spectral_dense_1" in page.text


def test_hostile_text_is_escaped_everywhere(fields, history, render):
    hostile = '<script>alert("x")</script>'
    fields["name"] = hostile
    fields["statement"] = hostile
    fields["config"]["data"][hostile] = hostile
    fields["config"][hostile] = {"a": {hostile: hostile}}
    fields["plan"][hostile] = hostile
    fields["plan"]["variables"][0]["layer"] = hostile
    fields["plan"]["variables"][0]["variable"] = hostile
    fields["versions"][hostile] = hostile
    fields["spent"]["accountant"] = fields["spent"]["adjacency"] = hostile
    for certified in fields["certified"]:
        certified["unit"] = hostile
    html, page = render(fields, history)
    assert "<script" not in html
    assert page.text.count(hostile) >= 10


def test_metrics_of_training_rows_never_reach_the_file(fields, history, render):
    history["loss"] = 0.987654
    history["accuracy"] = 0.876543
    html, _ = render(fields, history)
    assert "987654" not in html
    assert "876543" not in html


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda f: f["spent"].update(epsilon="inf"), "no finite epsilon"),
        (lambda f: f["config"]["privacy"].update(seed=0), "can be recomputed"),
    ],
)
def test_a_run_that_protects_nobody_says_so(fields, history, render, change, word):
    change(fields)
    _, page = render(fields, history)
    assert "Not private." in page.text
    assert word in page.text
    assert "the stronger the protection" not in page.text
    assert word in not_private_reason(RunResult.model_validate(fields))


@pytest.mark.parametrize(
    ("method", "title", "step"),
    [
        ("clipless", "proved gradient bounds", "a proved bound of what one row, or one user, adds"),
        ("dp-sgd", "clipped gradients", "clips the gradient of each"),
        ("none", "Training without privacy", "no noise is added"),
        ("mine", "Training by mine", ""),
    ],
)
def test_the_method_is_said_in_words(fields, history, render, method, title, step):
    fields["method"] = method
    _, page = render(fields, history)
    assert title in page.text
    assert step in page.text


def test_validation_rows_and_stopped_runs_are_named(fields, history, render):
    fields["config"]["data"]["validation_fraction"] = 0.2
    fields["interrupted"] = True
    _, page = render(fields, history)
    assert "Validation accuracy" in page.text
    assert "Test accuracy" not in page.text
    assert "Stopped early." in page.text


def test_radii_are_shown_once_by_size_with_equally_many_digits(fields, history, render):
    small, large = fields["certified"][0], fields["certified"][2]
    fields["certified"] = [large, large, small]
    small["auroc"], large["auroc"] = 0.8411, 0.74
    _, page = render(fields, history)
    table = page.text.split("Certified AUROC")[1].split("How to read")[0].split()
    assert table == ["0.05", "88.1", "%", "0.8411", "0.2", "73.1", "%", "0.7400"]


def test_the_curve_of_the_run_names_its_radius(fields, history, render):
    fields["config"]["certificates"]["radii"] = [0.1, 0.05]
    html, page = render(fields, history)
    assert "certified at 0.1" in html
    assert "certified accuracy within radius 0.1" in page.text


def test_who_is_protected_as_a_user_is_not_warned_of_rows(fields, history, render):
    assert "The unit is one row." in render(fields, history)[1].text
    fields["config"]["data"]["group"] = "user"
    assert "The unit is one row." not in render(fields, history)[1].text


def test_a_private_run_carries_no_warning(fields, history, render):
    _, page = render(fields, history)
    assert "Not private." not in page.text
    assert not_private_reason(RunResult.model_validate(fields)) == ""


def test_a_bare_result_still_makes_a_page(fields, render):
    fields["plan"] = {}
    fields["certified"] = []
    fields["test"]["auroc"] = None
    fields["config"] = {}
    fields["versions"] = {}
    _, page = render(fields, pd.DataFrame())
    assert page.attributes("svg") == []
    assert "91.2 %" in page.text


@given(epsilon=st.floats(0, 1e6), delta=st.floats(1e-12, 0.5), alarms=st.floats(1e-6, 1))
@example(epsilon=0.0, delta=0.0, alarms=0.01)
@example(epsilon=1e6, delta=1e-5, alarms=0.01)
def test_attack_power_is_a_probability_no_worse_than_guessing(epsilon, delta, alarms):
    power = meaning(epsilon, delta, alarms)["power"]
    assert alarms - 1e-12 <= power <= 1


def test_attack_power_bounds_the_best_test_of_randomised_response():
    # Two answers, the truth with probability e^eps / (1 + e^eps): the optimal test is known.
    epsilon = 1.2
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    corner = meaning(epsilon, 0.0, 1 - truth)["power"]
    assert corner == pytest.approx(truth, rel=1e-12)
    assert meaning(epsilon, 0.0, 0.01)["power"] == pytest.approx(0.01 * math.exp(epsilon))


@given(value=st.floats(1e-6, 1e9))
@example(value=1.00009)
@example(value=9.9999)
def test_bounds_are_rounded_up(value):
    shown = float(number_up(value))
    assert value <= shown <= value * 1.0011


def test_an_exact_number_stays_as_it_is():
    assert (number_up(1.987), number_up(8.0), number_up(7.9996)) == ("1.987", "8", "8")
    assert number_up(math.inf) == "\u221e"
    assert number_up(0.0) == "0"


def test_a_strong_epsilon_is_quantified_and_a_weak_one_is_not_praised(fields, history, render):
    _, page = render(fields, history)
    assert "recognises at most 7.3 %" in page.text
    fields["spent"]["epsilon"] = 8.0
    _, page = render(fields, history)
    assert "= 2981" in page.text
    assert "does not stop an attacker" in page.text


def test_percent_of_a_bound_is_rounded_up():
    assert percent_up(0.07301) == "7.4\u00a0%"
    assert percent_up(0.99999) == "100.0\u00a0%"
    assert percent_up(1.0) == "100.0\u00a0%"


def test_a_run_without_a_proof_shows_a_dash_and_why(fields, history, render):
    reason = "Nothing is certified of 9 of 9 rows: the layer 'ids' has no finite constant"
    _, page = render({**fields, "certified": [], "uncertified": reason}, history)
    assert f"{reason}." in page.text
    assert "\u2013" in page.text and "nothing can be proved" in page.text
    assert "How to read a certificate" not in page.text
    assert "Nothing is certified" not in render(fields, history)[1].text
