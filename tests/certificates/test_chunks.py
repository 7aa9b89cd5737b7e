"""Rows that are read when asked for give the certificates of the whole array."""

import keras
import numpy as np
import pandas as pd
import pytest

import lipdp
from lipdp.certificates.certify import RowChunks, is_read_by_rows


class ByRows:
    """Gives rows, and remembers how many at a time."""

    def __init__(self, rows):
        self._rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype
        self.most = 0

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, index):
        found = self._rows[index]
        self.most = max(self.most, len(found))
        return found


def test_what_is_read_by_rows():
    rows = np.zeros((3, 2))
    assert is_read_by_rows(ByRows(rows))
    others = [rows, pd.DataFrame(rows), pd.Series([1]), keras.ops.ones((3, 2)), [[1.0]], None, "x"]
    assert not any(map(is_read_by_rows, others))


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_every_row_is_in_one_chunk(count):
    rows = np.arange(2.0 * count).reshape(count, 2)
    chunks = RowChunks(ByRows(rows), np.arange(count), 4)
    parts = [chunks[i] for i in range(chunks.num_batches)]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in parts]), rows)
    np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), np.arange(count))


def test_certificates_are_those_of_the_array():
    rows = np.random.default_rng(0).normal(size=(50, 6)).astype("float32")
    model = lipdp.Sequential(
        [lipdp.layers.BoundedInput((6,), radius=2.0), lipdp.layers.SpectralDense(3)]
    )
    lazy = ByRows(rows)
    found, whole = lipdp.certify(model, lazy, batch_size=16), lipdp.certify(model, rows)
    assert lazy.most == 16
    np.testing.assert_allclose(found.logits, whole.logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.radii, whole.radii, rtol=1e-4, atol=1e-6)
