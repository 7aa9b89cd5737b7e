"""CSV and JSON say what the page says, and can be read back."""

from __future__ import annotations

import io
import json
import math

import pandas as pd
import pytest

from lipdp.reports.cost import section_cost
from lipdp.reports.pareto_data import to_json, to_table
from lipdp.reports.sections import sections


def no_privacy(fields):
    fields["method"] = "none"
    fields["spent"]["epsilon"] = "inf"


@pytest.fixture
def runs(make_run):
    return [
        make_run("a", 1.0, 0.8),
        make_run("b", 1.0, 0.82, seed=1),
        make_run("c", 3.0, 0.7),
        make_run("p, <q>", accuracy=0.9, edit=no_privacy),
    ]


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_json_holds_means_intervals_fronts_and_both_costs(runs):
    found = [(section, section_cost(section)) for section in sections(runs)]
    whole = strict(to_json(found))
    (section,) = whole["sections"]
    first, second = section["cells"]
    assert first["accuracy"]["mean"] == pytest.approx(0.81)
    assert first["accuracy"]["half_width"] == pytest.approx(12.7062 * 0.01, rel=1e-4)
    assert first["runs"] == ["runs/a", "runs/b"]
    assert (first["on_front"], second["on_front"]) == (True, False)
    assert second["accuracy"]["half_width"] is None
    low, high = first["accuracy_interval_by_test_rows"]
    assert low < 0.81 < high
    assert [r["accuracy"]["count"] for r in first["certified"]] == [2, 2, 2]
    assert section["references"][0]["epsilon"] == "inf"
    assert [one["radius"] for one in section["robust_fronts"]] == [0.05, 0.1, 0.2]
    assert all(one["cells"] == [0] for one in section["robust_fronts"])
    assert section["privacy"]["alone"] == 3.0
    assert section["privacy"]["together"]["runs"] == 3
    assert section["privacy"]["together"]["epsilon"] > 1.0
    assert whole["confidence"] == 0.95


def test_csv_has_one_row_a_run_that_is_read_back(runs):
    text = to_table(runs).to_csv(index=False)
    table = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])
    assert table["name"].tolist() == ["a", "b", "c", "p, <q>"]
    assert table["accuracy"].tolist() == [0.8, 0.82, 0.7, 0.9]
    assert math.isinf(table["epsilon"][3])
    assert table["initial_seed"].tolist() == [0, 1, 0, 0]
    assert table["certified_accuracy_at_0.05"].tolist() == pytest.approx([0.75, 0.77, 0.65, 0.85])


def test_unequal_radii_leave_gaps(make_run):
    def fewer(fields):
        fields["certified"] = fields["certified"][:1]

    table = to_table([make_run(), make_run(edit=fewer)])
    assert table["certified_accuracy_at_0.2"].isna().tolist() == [False, True]
    section = sections([make_run(), make_run(edit=fewer)])[0]
    cell = strict(to_json([(section, None)]))["sections"][0]["cells"][0]
    assert [one["accuracy"]["count"] for one in cell["certified"]] == [2, 1, 1]


def test_runs_that_were_stopped_are_marked_in_the_last_column(make_run):
    def other_radius(fields):
        fields["certified"][0]["radius"] = 0.07

    runs = [make_run(), make_run("b", seed=1, interrupted=True, edit=other_radius)]
    table = to_table(runs)
    assert table.columns[-1] == "interrupted"
    assert table["interrupted"].tolist() == [False, True]
    section = sections(runs)[0]
    cells = strict(to_json([(section, None)]))["sections"][0]["cells"]
    assert {cell["runs"][0]: cell["interrupted"] for cell in cells} == {
        "runs/a": False,
        "runs/b": True,
    }


def test_a_radius_that_was_asked_for_twice_counts_once(make_run):
    def twice(fields):
        fields["certified"] += fields["certified"]

    cell = sections([make_run(edit=twice)])[0].cells[0]
    unit = next(iter(cell.units))
    assert cell.certified(unit, 0.05).count == 1
    assert cell.certified(unit, 0.05).half_width is None
