import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import VectorEncoding, encoding_from_toml

FACTS = {"classes": ["a", "b"], "features": 3, "low": -1, "high": [1, 2, 3]}
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def encoding(**changes):
    return VectorEncoding(**{**FACTS, **changes})


@given(arrays(np.float64, (4, 3), elements=FINITE), st.sampled_from([None, 0.5, [0, 2, -1]]))
@settings(deadline=None, max_examples=60)
def test_no_row_is_longer_than_one(values, zero):
    found = encoding(zero=zero)
    for dtype in ("float32", "float64"):
        rows = found.encode(values, dtype)
        assert rows.dtype == dtype
        norms = np.sqrt(np.square(rows.astype(np.longdouble)).sum(axis=1))
        assert (norms <= 1).all() and (norms >= found.min_norm).all()
        assert (rows[:, -1] == found.constants[3]).all()


def test_zero_becomes_0_and_the_farther_end_1():
    found = encoding(zero=[0, 0, 3])
    rows = found.encode(np.array([[0, 0, 3], [1, 2, -1], [-9, -9, 9]])) / found.scale
    np.testing.assert_allclose(rows[0], [0, 0, 0, 1])
    np.testing.assert_allclose(rows[1], [1, 1, -1, 1])
    np.testing.assert_allclose(rows[2], [-1, -0.5, 0, 1])


def test_by_default_the_lowest_is_zero():
    found = encoding()
    rows = found.encode(np.array([[-1.0, -1.0, -1.0], [1.0, 0.5, 1.0]])) / found.scale
    np.testing.assert_allclose(rows, [[0, 0, 0, 1], [1, 0.5, 0.5, 1]])


def test_integers_and_single_numbers_of_all_features():
    found = encoding(low=0, high=10, zero=5)
    values = np.array([[0, 5, 10]], np.int16)
    np.testing.assert_allclose(found.encode(values) / found.scale, [[-1, 0, 1, 1]])


def test_what_others_need():
    assert encoding().num_features == 4 and encoding().shape == (4,)
    assert encoding().max_norm == 1.0


def test_toml_round_trip():
    for found in (encoding(), encoding(zero=[0.25, 0, 0]), encoding(low=-2.5, high=7)):
        assert encoding_from_toml(found.to_toml()) == found


@pytest.mark.parametrize("shape", [(5, 2), (5, 4), (5,), (5, 3, 1)])
def test_another_shape_is_refused(shape):
    with pytest.raises(InvalidData, match="3 numbers each"):
        encoding().check(np.zeros(shape))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"low": []}, "blank"),
        ({"high": [1, 2]}, "3 of them"),
        ({"low": [0, 2, 0]}, "below high"),
        ({"low": -1.7e308, "high": 1.7e308}, "below high"),
        ({"zero": 1.5}, "between"),
        ({"zero": -1.5}, "between"),
        ({"features": 0}, "features"),
        ({"classes": []}, "blank"),
        ({"low": float("nan")}, "low"),
    ],
)
def test_bad_facts(changes, words):
    with pytest.raises(InvalidConfig, match=words):
        encoding(**changes)


def test_a_slip_in_the_number_of_features_takes_no_memory():
    found = VectorEncoding(classes=[0, 1], features=10**15, low=0, high=1)
    with pytest.raises(InvalidData, match=f"must have {10**15} numbers"):
        found.check(np.zeros((2, 3)))
