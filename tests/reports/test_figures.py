"""Figures are inline SVG without links; what cannot be drawn is left out."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from lipdp.reports.figures import (
    MAX_VARIABLES,
    certificate_figure,
    noise_figure,
    training_figure,
)
from lipdp.results import RunResult


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg.replace("xlink:", ""))


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in parse(svg).iter() if node.tag == "text"]


def test_each_figure_is_one_labelled_svg_without_links(result, history):
    for svg in (
        training_figure(history, "a"),
        certificate_figure(result, "b"),
        noise_figure(result.plan["variables"], "c"),
    ):
        root = parse(svg)
        assert root.tag == "svg"
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert root.get("viewBox")
        assert root.get("width") is None
        assert "http" not in svg


def test_ids_carry_the_name_and_every_reference_resolves(result, history):
    seen: set[str] = set()
    for name, svg in (("a", training_figure(history, "a")), ("b", certificate_figure(result, "b"))):
        nodes = list(parse(svg).iter())
        ids = [node.get("id") for node in nodes if node.get("id")]
        assert len(ids) == len(set(ids))
        assert all(i.startswith(f"{name}-") for i in ids)
        assert not seen & set(ids)
        seen |= set(ids)
        references = [node.get("href") for node in nodes if node.get("href")]
        clips = [node.get("clip-path") for node in nodes if node.get("clip-path")]
        targets = [r.removeprefix("#") for r in references]
        targets += [c.removeprefix("url(#").removesuffix(")") for c in clips]
        assert targets
        assert set(targets) <= set(ids)


def test_same_input_gives_the_same_bytes(history):
    assert training_figure(history, "a") == training_figure(history, "a")


def test_training_figure_labels_both_panels(history):
    found = texts(training_figure(history, "a", 0.05))
    known = {"accuracy", "epsilon spent", "epoch", "held-out accuracy", "certified at 0.05"}
    assert known <= set(found)
    assert "certified" in texts(training_figure(history, "a"))


def test_columns_that_are_missing_or_infinite_are_left_out(history):
    history["epsilon"] = math.inf
    history.loc[2, "val_accuracy"] = math.nan
    found = texts(training_figure(history, "a"))
    assert "accuracy" in found
    assert "epsilon spent" not in found


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(),
        pd.DataFrame({"epoch": [1, 2]}),
        pd.DataFrame({"epoch": [1], "epsilon": [math.inf]}),
        pd.DataFrame({"val_accuracy": [0.5]}),
    ],
)
def test_nothing_to_draw_gives_no_figure(frame):
    assert training_figure(frame, "a") == ""


def test_metrics_of_training_rows_are_never_drawn(history):
    plain = training_figure(history, "a")
    history["loss"] = 1.0
    history["accuracy"] = 0.123
    assert training_figure(history, "a") == plain


def test_certificate_figure_names_the_unit_and_leaves_out_a_missing_auroc(fields):
    for certified in fields["certified"]:
        certified["auroc"] = None
    fields["test"]["auroc"] = None
    found = texts(certificate_figure(RunResult.model_validate(fields), "b"))
    assert any(text.startswith("radius (L2 distance of encoded rows") for text in found)
    assert "certified AUROC" not in found
    assert {"certified accuracy", "majority class"} <= set(found)


def test_nothing_certified_gives_no_figure(fields):
    fields["certified"] = []
    assert certificate_figure(RunResult.model_validate(fields), "b") == ""


def test_noise_figure_takes_hostile_names_as_text(result):
    rows = [
        {"layer": "<script>alert(1)</script>", "variable": "$x_{$", "bound": 1, "noise_stddev": 2},
        {"layer": "-->", "variable": "&", "bound": 0.5, "noise_stddev": 2.0},
    ]
    svg = noise_figure(rows, "c")
    assert "<script" not in svg
    assert "<script>alert(1)</script>/$x_{$" in texts(svg)
    assert "-->/&" in texts(svg)


def test_noise_figure_survives_zero_infinite_and_missing_values():
    rows = [
        {"layer": "frozen", "variable": "kernel", "bound": 0.0, "noise_stddev": 0.0},
        {"layer": "wild", "variable": "kernel", "bound": math.inf, "noise_stddev": math.nan},
        {"layer": "half", "variable": "kernel", "bound": 3.0},
    ]
    found = texts(noise_figure(rows, "c"))
    assert "half/kernel" in found
    assert "frozen/kernel" not in found
    assert noise_figure(rows[:2], "c") == ""


def test_noise_figure_has_a_limit(result):
    row = result.plan["variables"][0]
    many = noise_figure([{**row, "layer": f"l{i}"} for i in range(MAX_VARIABLES + 5)], "c")
    found = texts(many)
    assert f"l{MAX_VARIABLES - 1}/kernel" in found
    assert f"l{MAX_VARIABLES}/kernel" not in found


def test_a_radius_that_was_asked_for_twice_is_drawn_once(result):
    twice = [result.certified[1], *result.certified]
    assert certificate_figure(result.model_copy(update={"certified": twice}), "b") == (
        certificate_figure(result, "b")
    )
