"""Gram iteration."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.projections import SpectralProjection
from lipdp.projections.matrices import norm_from_gram


def gram_bound(v, squarings):
    v = keras.ops.convert_to_tensor(v)
    return float(norm_from_gram(keras.ops.transpose(v) @ v, int(v.shape[0]), squarings))


@settings(deadline=None, max_examples=40)
@given(
    rank=st.integers(1, 6),
    squarings=st.integers(0, 7),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_it_is_above_the_norm_and_overshoots_as_proved(rank, squarings, dtype, seed):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(9, rank)) @ rng.normal(size=(rank, 6))
    v = (v / np.max(np.abs(v))).astype(dtype)
    true, bound = np.linalg.norm(v.astype("float64"), 2), gram_bound(v, squarings)
    assert true <= bound
    slack = 1e-12 if dtype == "float64" else 1e-4
    assert bound <= true * rank ** (1.0 / 2 ** (squarings + 2)) * (1.0 + slack)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_start_vector_hides_the_greatest_singular_value(dtype):
    # Power iteration from a start without weight on the first axis would answer 2.999.
    w = np.diag([3.0, 2.999, 1.0]).astype(dtype)
    assert 3.0 * gram_bound(w / w.max(), 7) >= 3.0
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        projected = np.asarray(SpectralProjection(2.9995)(w[order][:, order]), "float64")
        assert np.linalg.norm(projected, 2) <= 2.9995


def test_matrices_too_large_for_a_proof_are_refused():
    with pytest.raises(InvalidValue):
        norm_from_gram(np.eye(2048, dtype=np.float32), 4096, 1)
