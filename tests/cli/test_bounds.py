"""``lipdp bounds``: the table as it is, with dashes and nulls where there is nothing."""

from __future__ import annotations

import json
from pathlib import Path

from lipdp.errors import UnsupportedLayer


def test_the_table(run, experiment):
    result = run("bounds")
    assert result.exit_code == 0, result.output
    assert experiment.calls == [{"source": None, "overrides": (), "values": {}}]
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["layer", "variable", "output_bound", "lipschitz", "bound", "noise_stddev"],
        ["input", "-", "1", "1", "-", "-"],
        ["dense", "kernel", "inf", "1", "1.41421", "2.5"],
    ]


def test_json(run, experiment):
    rows = json.loads(run("bounds", "--json").stdout)
    assert rows[0]["bound"] is None
    assert rows[1] == {
        "layer": "dense",
        "variable": "kernel",
        "output_bound": "inf",
        "lipschitz": 1.0,
        "bound": 1.4142135,
        "noise_stddev": 2.5,
    }


def test_source_and_overrides_are_passed_on(run, experiment, tmp_path):
    (tmp_path / "model.keras").write_text("")
    sets = ["--set", "model.name=mlp", "--set", "training.epochs=3"]
    run("bounds", "model.keras", "--limit-rows", "9", *sets)
    assert experiment.calls == [
        {
            "source": Path("model.keras"),
            "overrides": ("model.name=mlp", "training.epochs=3"),
            "values": {"data.limit_rows": 9},
        }
    ]


def test_a_source_that_is_not_there(refused, experiment):
    assert "'nowhere' does not exist" in refused("bounds", "nowhere")
    assert experiment.calls == []


def test_a_model_without_bounds(refused, experiment):
    experiment.error = UnsupportedLayer("No proof", received="batch_norm", fix="Leave it out")
    assert "No proof. Received: 'batch_norm'. Leave it out." in refused("bounds")
