import numpy as np
import pytest

from lipdp.errors import InvalidData
from lipdp.preprocessing import EncodedRows, ImageEncoding, VectorEncoding
from lipdp.preprocessing import values as values_module

IMAGES = ImageEncoding(classes=["a", "b"], shape=[2, 2, 1], low=0, high=255)
VECTORS = VectorEncoding(classes=["a", "b"], features=4, low=-3, high=3, zero=0)
RNG = np.random.default_rng(0)


@pytest.fixture(params=[IMAGES, VECTORS], ids=["images", "vectors"])
def pair(request):
    """Lazy rows, and what they must be."""
    images = request.param is IMAGES
    raw = RNG.integers(0, 256, (9, 2, 2)).astype(np.uint8) if images else RNG.normal(size=(9, 4))
    return EncodedRows(raw, request.param, "float32"), request.param.encode(raw, "float32")


@pytest.mark.parametrize(
    "index",
    [slice(2, 5), slice(None), np.array([7, 0, 7]), [1, 2], np.arange(9) > 6, 3, -1, slice(0, 0)],
    ids=str,
)
def test_it_reads_as_the_whole_array_would(pair, index):
    rows, whole = pair
    np.testing.assert_array_equal(rows[index], whole[index])
    assert rows[index].shape == whole[index].shape


def test_form(pair):
    rows, whole = pair
    assert rows.shape == whole.shape and rows.dtype == whole.dtype and rows.ndim == 2
    assert len(rows) == 9 and not hasattr(rows, "__array__")


def test_some_of_some_rows(pair):
    rows, whole = pair
    part = rows.take(np.array([8, 1, 4])).take(np.array([2, 0]))
    np.testing.assert_array_equal(part[:], whole[[4, 8]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_place_of_a_bad_number_is_named_in_any_block(bad, monkeypatch):
    monkeypatch.setattr(values_module, "_BLOCK", 8)
    raw = np.zeros((9, 4))
    raw[6, 1] = bad
    with pytest.raises(InvalidData, match="Row 7, column 2"):
        EncodedRows(raw, VECTORS)


@pytest.mark.parametrize(
    "raw",
    [np.zeros((0, 4)), np.zeros((3, 4), complex), np.full((3, 4), "1"), np.full((3, 4), None)],
)
def test_arrays_that_hold_no_rows_of_numbers(raw):
    with pytest.raises(InvalidData, match="must hold numbers"):
        EncodedRows(raw, VECTORS)
