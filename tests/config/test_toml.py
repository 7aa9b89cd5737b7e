import math
import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.config.toml import parse_toml, read_toml, toml_value, write_toml
from lipdp.errors import InvalidConfig

# TOML has no surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
@example({"a": {"b": {}}, "": {"c.d": 1}, "\x7f": '"\\\n', "e": [{"f": [1, True]}]})
@example({"a": {"b": {"c": 1}}, "d": 1e-7, "e": math.inf, "f": 2**70})
def test_what_is_written_is_read_back(tables):
    assert parse_toml(write_toml(tables), "here") == tables


@given(VALUES)
@example([{"a": {"b": [1, "x\n"]}}])
def test_a_value_stands_behind_any_key(value):
    assert parse_toml(f"key = {toml_value(value)}", "here") == {"key": value}


@pytest.mark.parametrize("value", [object(), {"a": None}])
def test_a_value_without_a_toml_form_is_refused(value):
    with pytest.raises(InvalidConfig, match="no TOML form"):
        toml_value(value)


def test_types_survive():
    read = tomllib.loads(write_toml({"a": 1, "b": 1.0, "c": True}))
    assert [type(value) for value in read.values()] == [int, float, bool]


def test_none_is_left_out():
    assert tomllib.loads(write_toml({"a": None, "b": {"c": None}})) == {"b": {}}


@pytest.mark.parametrize("value", [object(), [None], {1, 2}, b"x"])
def test_values_without_a_toml_form_are_refused(value):
    with pytest.raises(InvalidConfig, match="no TOML form"):
        write_toml({"a": value})


@pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2", "[a", "= 1", "a = " + "9" * 5000])
def test_bad_toml_is_refused(text):
    with pytest.raises(InvalidConfig, match="the place"):
        parse_toml(text, "the place")


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1")
    assert read_toml(path) == {"a": 1}


def test_files_that_cannot_be_read(tmp_path):
    binary = tmp_path / "b.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.toml", tmp_path, binary, "a\0b"):
        with pytest.raises(InvalidConfig, match="cannot be read"):
            read_toml(path)
