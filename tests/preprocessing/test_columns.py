import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from lipdp.errors import InvalidData
from lipdp.preprocessing import CategoryColumn, NumberColumn

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def column(*cells):
    return pd.Series(list(cells), dtype=object)


def number(*limits, **options):
    return NumberColumn(kind="number", range=limits, **options)


def category(*values, **options):
    return CategoryColumn(kind="category", categories=values, **options)


def test_numbers_are_clipped_and_scaled():
    block = number(10, 20).encode("x", column("5", 10, "12.5", 20.0, "1e9"))
    assert block.tolist() == [[0.0], [0.0], [0.25], [1.0], [1.0]]


def test_log_scale():
    block = number(-1, 98, scale="log").encode("x", column(-1, 8, 98))
    assert block[:, 0] == pytest.approx([0.0, 0.5, 1.0], abs=1e-12)


@given(FINITE, FINITE, st.lists(FINITE, min_size=1), st.sampled_from(["linear", "log"]))
@example(0.0, 5e-324, [5e-324], "log")
@example(-8e307, 8e307, [1e308, 0.1], "linear")
def test_scaled_numbers_are_in_the_unit_interval_and_ordered(a, b, values, scale):
    low, high = min(a, b), max(a, b)
    if not 0 < high - low < math.inf:
        return
    block = number(low, high, scale=scale).encode("x", column(*sorted(values)))
    assert block.shape == (len(values), 1)
    assert ((block >= 0) & (block <= 1)).all()
    assert (np.diff(block[:, 0]) >= -1e-15).all()


def test_bins_are_closed_on_the_left():
    ages = number(0, 100, bins=[18, 65])
    block = ages.encode("age", column(-5, 0, 17.9, 18, 64, 65, 100, 200))
    assert block.argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert (block.sum(axis=1) == 1).all()
    assert ages.feature_names("age") == [
        "age in [0, 18)",
        "age in [18, 65)",
        "age in [65, 100]",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"range": ()},
        {"range": (1,)},
        {"range": (1, 2, 3)},
        {"range": (2, 1)},
        {"range": (1, 1)},
        {"range": (0, math.inf)},
        {"range": (math.nan, 1)},
        {"range": (-1e308, 1e308)},
        {"range": (0, 10**400)},
        {"range": ("0", "1")},
        {"range": (False, True)},
        {"range": (0, 1), "scale": "sqrt"},
        {"range": (0, 1), "bins": (0,)},
        {"range": (0, 1), "bins": (1,)},
        {"range": (0, 1), "bins": (0.5, 0.5)},
        {"range": (0, 1), "bins": (0.5, 0.2)},
        {"range": (0, 1), "bins": (0.5,), "scale": "log"},
        {"range": (0, 1), "categories": ("a",)},
    ],
)
def test_bad_number_columns(options):
    with pytest.raises(ValidationError):
        NumberColumn(kind="number", **options)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("", "an empty cell"),
        (None, "an empty cell"),
        (math.nan, "an empty cell"),
        ("abc", "no finite number.*'abc'"),
        ("nan", "no finite number.*'nan'"),
        ("inf", "no finite number"),
        (-math.inf, "no finite number"),
        ([1], "no finite number"),
    ],
)
def test_bad_numbers_name_column_row_and_value(cell, words):
    with pytest.raises(InvalidData, match=f"'age', row 3: {words}"):
        number(0, 1).encode("age", column(1, 2, cell, "later"))


def test_categories_become_one_hot():
    block = category("a", "?", "1").encode("x", column(" ?", "a", 1.0, "1"))
    assert block.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]]
    assert category("a", "?").feature_names("x") == ["x=a", "x=?"]


def test_unknown_values_are_zero_if_allowed():
    block = category("a", "b", allow_unknown=True).encode("x", column("b", "c", "", None))
    assert block.tolist() == [[0, 1], [0, 0], [0, 0], [0, 0]]


def test_an_empty_cell_can_be_a_category():
    assert category("", "a").encode("x", column(None, "a")).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("cell", "words"),
    [("", "an empty cell"), (None, "an empty cell"), ("Privat", "near: 'Private'.*'Privat'")],
)
def test_unknown_values_name_column_row_and_value(cell, words):
    with pytest.raises(InvalidData, match=f"'work', row 2: .*{words}"):
        category("Private", "State").encode("work", column("State", cell, "later"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"categories": ()},
        {"categories": ("a", "a")},
        {"categories": ("a", " a")},
        {"categories": (1, "1")},
        {"categories": ("a", ["b"])},
        {"categories": "ab"},
        {"categories": ("a",), "range": (0, 1)},
    ],
)
def test_bad_category_columns(options):
    with pytest.raises(ValidationError):
        CategoryColumn(kind="category", **options)
