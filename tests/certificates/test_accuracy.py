import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.certificates import certified_accuracy, radii
from lipdp.errors import InvalidData, InvalidValue


def test_equality_is_not_certified():
    values = [0.0, 0.5, 1.0, math.inf]
    assert certified_accuracy(values, 0.0) == 0.75
    assert certified_accuracy(values, 0.5) == 0.5
    assert certified_accuracy(values, 1e9) == 0.25


@given(st.lists(st.floats(0, 10), min_size=1), st.floats(0, 10), st.floats(0, 10))
def test_falls_with_the_radius(values, a, b):
    low, high = sorted((a, b))
    assert 1.0 >= certified_accuracy(values, low) >= certified_accuracy(values, high) >= 0.0


def test_at_radius_zero_it_is_the_accuracy():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    found = certified_accuracy(radii(logits, labels, lipschitz=5.0), 0.0)
    assert found == (logits.argmax(axis=1) == labels).mean()


@pytest.mark.parametrize("values", [[], [-1.0], [math.nan], [[[1.0]]], 1.0])
def test_bad_radii_are_refused(values):
    with pytest.raises(InvalidData):
        certified_accuracy(values, 0.0)


@pytest.mark.parametrize("radius", [-0.1, math.nan])
def test_bad_radius_is_refused(radius):
    with pytest.raises(InvalidValue):
        certified_accuracy([1.0], radius)
