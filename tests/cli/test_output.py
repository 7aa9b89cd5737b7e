"""Tables are plain off a terminal and drawn on one; JSON has no infinity."""

from __future__ import annotations

import json
import math

import click
import pytest
from click.testing import CliRunner

from lipdp.cli._output import cell, emit_json, emit_table


def written(function, *arguments) -> str:
    command = click.command("x")(lambda: function(*arguments))
    return CliRunner().invoke(command, [], catch_exceptions=False).stdout


def test_json_writes_infinity_as_text():
    data = {"a": math.inf, "b": [-math.inf, 1.5], "c": {"d": (2, "x", None, True)}}
    assert json.loads(written(emit_json, data)) == {
        "a": "inf",
        "b": ["-inf", 1.5],
        "c": {"d": [2, "x", None, True]},
    }


def test_a_plain_table_is_aligned_and_unstyled():
    text = written(emit_table, "T", ["name", "value"], [("a[b]c", 1.23456789), ("long name", None)])
    assert text.splitlines() == [
        "name         value",
        "a[b]c      1.23457",
        "long name        -",
    ]


def test_a_long_line_is_not_cut_off_in_a_pipe():
    assert "x" * 500 in written(emit_table, "T", ["name"], [("x" * 500,)])


def test_a_terminal_gets_a_drawn_table_with_the_text_as_it_is(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    text = written(emit_table, "Title", ["name"], [("[red]:smile:",)])
    assert "Title" in text
    assert "[red]:smile:" in text
    assert "┃" in text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.1, "0.1"), (3, "3"), (math.inf, "inf"), ("x", "x")]
)
def test_cell(value, text):
    assert cell(value) == text
