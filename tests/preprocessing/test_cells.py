import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from lipdp.preprocessing.values import as_number, as_text, numbers, texts


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (" a b ", "a b"),
        ("NA", "NA"),
        (None, ""),
        (math.nan, ""),
        (pd.NA, ""),
        (pd.NaT, ""),
        (1, "1"),
        (1.0, "1"),
        (np.float32(1.0), "1"),
        (np.int8(1), "1"),
        (1.5, "1.5"),
        (-0.0, "0"),
        (math.inf, "inf"),
        (True, "True"),
        (np.True_, "True"),
    ],
)
def test_text(cell, text):
    assert as_text(cell) == text


@pytest.mark.parametrize(
    ("cell", "number"),
    [(" 1.5 ", 1.5), ("-1e3", -1000.0), (2, 2.0), (np.True_, 1.0), (Decimal("0.5"), 0.5)],
)
def test_number(cell, number):
    assert as_number(cell) == number


@pytest.mark.parametrize(
    "cell",
    ["", "a", "1,5", "1_000", "0x1", None, pd.NA, pd.NaT, [1], 1j, 10**400, pd.Timestamp("2020")],
)
def test_not_a_number(cell):
    assert math.isnan(as_number(cell))


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float32", "object", "string", "category"])
def test_the_type_of_the_column_does_not_matter(dtype):
    cells = pd.Series([1, 2]).astype("str" if dtype == "string" else "int64").astype(dtype)
    assert texts(cells) == ["1", "2"]
    assert numbers(cells).tolist() == [1.0, 2.0]
