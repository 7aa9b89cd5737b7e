"""``lipdp schema``: a blank schema on stdout, no value of a row in it."""

from __future__ import annotations

import tomllib

import pytest


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("age,work,income\n39,state,low\n51,private,high\n")
    return path


def test_a_blank_schema(run, table):
    result = run("schema", table, "--target", "income")
    assert result.exit_code == 0, result.output
    tables = tomllib.loads(result.stdout)
    assert tables["target"] == "income"
    assert set(tables["columns"]) == {"age", "work"}
    assert not any(value in str(tables) for value in ("39", "51", "state", "private", "high"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.csv", "--target", "income"], ["'nowhere.csv' does not exist"]),
        (["my.csv", "--target", "incom"], ["'incom'", "income"]),
        (["my.csv"], ["--target"]),
        (["empty.csv", "--target", "income"], ["empty.csv"]),
        (["my.doc", "--target", "income"], ["my.doc", ".csv"]),
    ],
)
def test_bad_input(refused, table, tmp_path, arguments, words):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "my.doc").write_text("a,b\n1,2\n")
    text = refused("schema", *arguments)
    assert all(word in text for word in words), text
