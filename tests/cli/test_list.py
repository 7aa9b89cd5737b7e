"""``lipdp list``: every name, without importing Keras."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KINDS = ["datasets", "models", "layers", "losses", "accountants"]


def test_all_names_as_json(run):
    found = json.loads(run("list", "--json").stdout)
    assert list(found) == KINDS
    assert "adult" in found["datasets"]
    assert {"pld", "rdp"} <= set(found["accountants"])
    assert "base" not in found["layers"]


def test_one_kind_is_one_name_a_line(run):
    assert "pld" in run("list", "accountants").stdout.splitlines()
    assert json.loads(run("list", "datasets", "--json").stdout).keys() == {"datasets"}


def test_data_sets_say_where_they_are_from(run):
    facts = json.loads(run("list", "datasets", "--json").stdout)["datasets"]
    assert facts["adult"]["licence"] == "CC BY 4.0" and facts["adult"]["from"] == "in the package"
    assert facts["mnist"]["from"].startswith("https://")
    assert all(set(fact) == {"title", "licence", "from", "source"} for fact in facts.values())
    lines = run("list", "datasets").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("fashion-mnist ")]
    assert "Zalando" in line and "MIT" in line


def test_the_whole_table(run):
    lines = [line.split() for line in run("list").stdout.splitlines()]
    assert ["datasets", "adult"] in lines
    assert ["accountants", "rdp"] in lines


def test_an_unknown_kind_names_the_known_ones(refused):
    text = refused("list", "layer")
    assert "'layer'" in text
    assert all(kind in text for kind in KINDS)


def test_keras_is_not_imported():
    code = (
        "import sys\nfrom lipdp.cli import COMMANDS\n"
        "COMMANDS(['list'], standalone_mode=False)\n"
        "print('LOADED', [m for m in ('keras', 'tensorflow') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "LOADED []" in done.stdout
