"""``lipdp list``: every name, without importing Keras."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

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
    text = run("list", "datasets").stdout
    (line,) = [line for line in text.splitlines() if line.startswith("fashion-mnist ")]
    assert "MIT" in line and "Zalando" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_data_sets_fit_a_terminal_and_addresses_stay_whole(run, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "100")
    if terminal:
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
    facts = json.loads(run("list", "datasets", "--json").stdout)["datasets"]
    lines = run("list", "datasets").stdout.splitlines()
    assert ("━" in lines[1]) == terminal
    addresses = {f"{name}: {fact['from']}" for name, fact in facts.items()}
    assert addresses <= set(lines)
    assert all(len(click.unstyle(line)) <= 100 for line in lines if line not in addresses)
    text = " ".join(" ".join(lines).split())
    assert all(text.count(fact["source"]) == 1 for fact in facts.values())


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
