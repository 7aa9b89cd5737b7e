import tomllib

import pandas as pd
import pytest

from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import Schema, blank_schema

FRAME = pd.DataFrame(
    {
        "age": ["17", " 90 "],
        "size": [1.5, 2.0],
        "work.place": ["secret-a", "7"],
        "gap": ["1", ""],
        "late": ["1", "inf"],
        "y": ["0", "1"],
    }
)


def test_kinds_are_guessed_and_the_rest_is_blank():
    read = tomllib.loads(blank_schema(FRAME, "y"))
    assert (read["target"], read["classes"]) == ("y", [])
    assert read["columns"] == {
        "age": {"kind": "number", "range": []},
        "size": {"kind": "number", "range": []},
        "work.place": {"kind": "category", "categories": []},
        "gap": {"kind": "category", "categories": []},
        "late": {"kind": "category", "categories": []},
    }


def test_no_cell_is_shown():
    text = blank_schema(FRAME, "y")
    assert "secret" not in text
    assert "17" not in text


def test_it_says_what_to_fill_in_and_why():
    text = blank_schema(FRAME, "y")
    assert text.startswith("#")
    for words in ("classes", "range", "categories", "private rows", "betray"):
        assert words in text


def test_it_is_refused_until_filled_in():
    text = blank_schema(FRAME, "y")
    with pytest.raises(InvalidConfig, match="blank"):
        Schema.from_toml(text)
    filled = (
        text.replace("\nclasses = []", "\nclasses = [0, 1]")
        .replace("\nrange = []", "\nrange = [0, 100]")
        .replace("\ncategories = []", '\ncategories = ["secret-a", "7", "1", "", "inf"]')
    )
    schema = Schema.from_toml(filled)
    assert schema.encode(FRAME).shape == (2, schema.num_features)


@pytest.mark.parametrize(
    ("frame", "target", "words"),
    [
        (FRAME, "Y ", r"target.*'Y '.*Use one of \['age'"),
        (FRAME, "sizes", "Did you mean 'size'"),
        (FRAME[["y"]], "y", "two or more columns"),
        (FRAME.iloc[:0], "y", "rows"),
        (pd.concat([FRAME, FRAME], axis=1), "y", "different names"),
    ],
)
def test_bad_tables(frame, target, words):
    with pytest.raises(InvalidData, match=words):
        blank_schema(frame, target)
