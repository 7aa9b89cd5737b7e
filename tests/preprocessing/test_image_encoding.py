import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing import ImageEncoding, encoding_from_toml

FACTS = {"classes": ["a", "b"], "shape": [2, 3, 1], "low": 0, "high": 255}


def encoding(**changes):
    return ImageEncoding(**{**FACTS, **changes})


@given(arrays(np.uint8, (4, 2, 3, 1)), st.sampled_from(["float32", "float64"]))
@settings(deadline=None, max_examples=30)
def test_bytes_become_numbers_from_0_to_1(images, dtype):
    rows = encoding().encode(images, dtype)
    assert rows.dtype == dtype and rows.shape == (4, 6)
    exact = images.reshape(4, 6).astype(np.longdouble) / 255
    np.testing.assert_allclose(rows, exact.astype(float), rtol=1e-6)
    assert rows.min() >= 0 and rows.max() <= 1
    norms = np.sqrt(np.square(rows.astype(np.longdouble)).sum(axis=1))
    assert (norms <= encoding().max_norm).all()
    # The raw images are left as they are.
    assert images.dtype == np.uint8


@given(arrays(np.float64, (2, 6), elements=st.floats(allow_nan=False, allow_infinity=False)))
@settings(deadline=None, max_examples=30)
def test_what_lies_outside_is_clipped(values):
    for dtype in ("float32", "float64"):
        rows = encoding(low=-1.5, high=0.5).encode(values, dtype)
        assert (rows >= 0).all() and (rows <= 1).all()
        assert (rows[values >= 0.5] == 1).all() and (rows[values <= -1.5] == 0).all()


def test_distances_are_of_values_scaled_to_0_to_1():
    rows = encoding(low=-1, high=1).encode(np.array([[-1.0] * 6, [1.0] * 6]))
    np.testing.assert_allclose(np.linalg.norm(rows[1] - rows[0]), np.sqrt(6))


def test_order_is_height_width_channels():
    image = np.zeros((1, 2, 3, 2), np.uint8)
    image[0, 1, 0, 1] = 255
    rows = encoding(shape=[2, 3, 2]).encode(image)
    assert rows[0].reshape(2, 3, 2)[1, 0, 1] == 1 and rows.sum() == 1


def test_what_others_need():
    found = encoding(shape=[4, 4, 3])
    assert found.num_features == 48 and found.shape == (4, 4, 3)
    assert dict(found.constants) == {} and "[0, 1]" in found.unit


def test_toml_round_trip():
    found = encoding(low=-0.5, high=1.0, classes=[0, True, "x y"])
    assert encoding_from_toml(found.to_toml()) == found
    assert found.classes == ("0", "True", "x y")


@pytest.mark.parametrize("shape", [(5, 2, 3, 1), (5, 2, 3), (5, 6)])
def test_one_channel_may_be_left_out(shape):
    encoding().check(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("shape", [(5, 3, 2, 1), (5, 2, 3, 3), (5, 7), (5,), (5, 1, 2, 3)])
def test_another_shape_is_refused(shape):
    with pytest.raises(InvalidData, match=r"shape \(2, 3, 1\)"):
        encoding().check(np.zeros(shape, np.uint8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": []}, "classes are blank"),
        ({"classes": ["a"]}, "two or more"),
        ({"classes": ["a", "a"]}, "two or more"),
        ({"shape": [28, 28]}, "height, width, channels"),
        ({"shape": [28, 28, 0]}, "shape"),
        ({"low": []}, "blank"),
        ({"low": 255}, "below high"),
        ({"high": float("inf")}, "high"),
        ({"low": "0"}, "low"),
        ({"height": 3}, "height"),
    ],
)
def test_bad_facts(changes, words):
    with pytest.raises(InvalidConfig, match=words):
        encoding(**changes)
