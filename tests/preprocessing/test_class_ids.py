import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipdp.errors import InvalidData
from lipdp.preprocessing import class_ids, require_two_classes

NAMES = ("cat", "dog", "emu")


@given(st.lists(st.integers(0, 2), min_size=1, max_size=20))
@settings(deadline=None, max_examples=30)
def test_numbers_are_ids_where_classes_have_names(ids):
    for dtype in (np.uint8, np.int64, np.float32):
        found = class_ids(np.array(ids, dtype=dtype), NAMES)
        assert found.dtype == np.int64 and found.tolist() == ids
    assert class_ids(np.array([NAMES[i] for i in ids]), NAMES).tolist() == ids
    assert class_ids(np.array([NAMES[i].encode() for i in ids]), NAMES).tolist() == ids
    assert class_ids(np.array(ids)[:, None], NAMES).tolist() == ids


def test_numbers_are_values_where_classes_are_numbers():
    assert class_ids(np.array([2, 1, 2]), ("1", "2")).tolist() == [1, 0, 1]
    assert class_ids(np.array([-1.0, 1.0]), ("-1", "1")).tolist() == [0, 1]
    assert class_ids(np.array(["2", "1"]), ("1", "2")).tolist() == [1, 0]
    assert class_ids(np.array([True, False]), ("0", "1")).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "row"),
    [
        ([0, 1, 3], 3),
        ([0, -1, 1], 2),
        ([0.0, 0.5], 2),
        ([0.0, np.nan], 2),
        ([np.inf, 0.0], 1),
        (["cat", "cow"], 2),
        (["0", "1"], 1),
    ],
)
def test_the_row_of_a_bad_label_is_named(labels, row):
    with pytest.raises(InvalidData, match=f"row {row}:"):
        class_ids(np.array(labels), NAMES)


def test_a_bad_label_is_told_as_the_file_has_it_beside_the_names():
    with pytest.raises(InvalidData, match=r"0 \('cat'\), 1 \('dog'\), 2 \('emu'\)\. Received: 7\."):
        class_ids(np.array([0, 7]), NAMES)
    with pytest.raises(InvalidData, match=r"classes 'cat', 'dog', 'emu'\. Received: 'cow'\."):
        class_ids(np.array([b"cow"]), NAMES)
    with pytest.raises(InvalidData, match=r"0 \('c0'\), 1 .*, \.\.\., 19 \('c19'\)\."):
        class_ids(np.array([20]), tuple(f"c{i}" for i in range(20)))


@pytest.mark.parametrize(
    "labels", [np.zeros((3, 2)), np.zeros(()), np.zeros(0), np.zeros(3, complex)]
)
def test_labels_of_another_form(labels):
    with pytest.raises(InvalidData, match="one number or text a row"):
        class_ids(labels, NAMES)


def test_at_least_two_classes():
    require_two_classes(np.array([0, 0, 2]), NAMES)
    with pytest.raises(InvalidData, match=r"same label.*'emu'"):
        require_two_classes(np.array([2, 2, 2]), NAMES)
