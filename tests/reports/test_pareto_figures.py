"""Figures over several runs: axes of shares, and radii that are named."""

from __future__ import annotations

import re

import pytest

from lipdp.reports.pareto_figures import front_figure, learning_figures
from lipdp.reports.sections import sections


def ticks(svg):
    return [float(text) for text in re.findall(r">(-?[\d.]+) %<", svg)]


def test_accuracy_stays_between_0_and_100_percent(make_run):
    (section,) = sections([make_run("a", accuracy=0.05), make_run("b", accuracy=0.95, seed=1)])
    assert section.cells[0].accuracy.half_width > 3
    found = ticks(front_figure(section, "f"))
    assert found
    assert min(found) >= 0
    assert max(found) <= 100


@pytest.mark.parametrize("radii", [[0.05, 0.1], [0.1, 0.05]])
def test_learning_curves_name_the_first_radius(make_run, radii):
    def edit(fields):
        fields["config"]["certificates"]["radii"] = radii

    (section,) = sections([make_run(edit=edit)])
    shown = "".join(learning_figures(section, "l"))
    assert f"certified accuracy at {radii[0]:g}" in shown


def test_radii_that_are_not_known_or_differ_are_not_named(make_run):
    def edit(fields):
        fields["config"].pop("certificates")

    (section,) = sections([make_run(edit=edit)])
    shown = "".join(learning_figures(section, "l"))
    assert "certified accuracy" in shown
    assert "certified accuracy at" not in shown
