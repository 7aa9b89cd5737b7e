import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.numerics import gamma, product_slack, times, unit_roundoff


def test_unit_roundoff_is_half_the_spacing_above_one():
    for dtype in ("float32", "float64"):
        assert unit_roundoff(dtype) == np.finfo(dtype).eps / 2
    with pytest.raises(UnsafeSetting, match="bfloat16"):
        unit_roundoff("bfloat16")


def test_gamma_is_refused_where_it_means_nothing():
    assert gamma(0, 2.0**-24) == 0.0
    for n in (-1, 2**24):
        with pytest.raises(InvalidValue):
            gamma(n, 2.0**-24)


@given(st.integers(1, 400), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_product_slack_covers_float32_products(inner, side, seed):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(inner, side)).astype("float32")
    x = rng.normal(size=inner).astype("float32")
    computed = np.zeros(side, dtype="float32")
    for row, factor in zip(w, x, strict=True):  # the longest order of summation
        computed = computed + factor * row
    exact = x.astype("float64") @ w.astype("float64")
    norm = np.linalg.norm(w.astype("float64"), 2) * np.linalg.norm(x.astype("float64"))
    slack = product_slack(inner, min(inner, side), 2.0**-24)
    assert np.linalg.norm(computed - exact) <= slack * norm


def test_infinity_wins_over_zero():
    assert times(0.0, math.inf) == math.inf
    assert times(2.0, 3.0, 4.0) == 24.0
    assert times(0.0, 5.0) == 0.0
