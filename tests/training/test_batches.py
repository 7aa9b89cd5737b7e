"""Drawn batches: one shape, random slots, fresh draws."""

import numpy as np
import pytest

from lipdp.privacy import PoissonSampler
from lipdp.training.batches import PrivateBatches, Slots
from lipdp.training.data import single_rows


def batches(n=50, b=10, capacity=30, seed=None):
    x = np.arange(1, n + 1, dtype="float32")[:, None]
    sampler = PoissonSampler(n, b, seed=seed)
    slots = Slots(units=capacity, micro_batches=1, rows=capacity)
    return PrivateBatches(x, np.arange(n), single_rows(n), sampler, slots=slots, seed=seed)


def test_every_batch_has_the_same_shape_and_its_own_rows():
    data = batches()
    for i in range(20):
        x, y, mask = data[i]
        assert x.shape == (30, 1) and y.shape == (30,) and mask.shape == (30,)
        kept = mask > 0
        assert set(np.unique(mask)) <= {0.0, 1.0}
        assert np.array_equal(x[kept, 0], y[kept] + 1)
        assert not x[~kept].any()
        assert len(set(y[kept])) == kept.sum()


def test_the_same_index_draws_anew():
    data = batches(n=1000, b=300, capacity=600)
    assert not np.array_equal(data[0][1], data[0][1])


def test_slots_are_uniform_over_the_whole_capacity():
    # 4000 draws of about 10 of 30 slots: each slot is taken 1/3 of the time, +- 5 sigma.
    data = batches(seed=0)
    taken = np.mean([data[i][2] for i in range(4000)], axis=0)
    assert np.abs(taken - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 4000)


def test_an_overflowing_draw_keeps_a_random_part():
    data = batches(n=50, b=40, capacity=10, seed=1)
    kept = np.zeros(50)
    for i in range(2000):
        _, y, mask = data[i]
        assert mask.sum() == 10
        kept[y[mask > 0]] += 1
    assert np.abs(kept / 2000 - 0.2).max() < 5 * np.sqrt(0.16 / 2000)


def test_empty_draws_are_batches_too():
    data = batches(n=100, b=3, capacity=20, seed=0)
    sizes = [data[i][2].sum() for i in range(500)]
    # (1 - 0.03)^100 = 4.8 % of the draws are empty.
    assert np.mean(np.array(sizes) == 0) == pytest.approx(0.048, abs=5 * np.sqrt(0.048 / 500))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("mapped", [False, True])
def test_rows_are_gathered_into_memory_of_their_own(dtype, mapped, tmp_path):
    """At a multiple of 64 bytes, where TensorFlow takes it over; each batch has another piece."""
    whole = np.random.default_rng(0).integers(0, 2, size=(50, 3, 2)).astype(dtype)
    if mapped:
        np.save(tmp_path / "x.npy", whole)
        whole = np.load(tmp_path / "x.npy", mmap_mode="r")
    slots = Slots(units=30, micro_batches=1, rows=30)
    labels = np.arange(50)
    data = PrivateBatches(whole, labels, single_rows(50), PoissonSampler(50, 10), slots=slots)
    (x, y, mask), (other, *_) = data[0], data[0]
    kept = mask > 0
    assert type(x) is np.ndarray and x.dtype == whole.dtype and x.shape == (30, 3, 2)
    assert np.array_equal(x[kept], whole[y[kept]]) and not x[~kept].any()
    assert x.ctypes.data % 64 == 0
    assert not np.shares_memory(x, other) and not np.shares_memory(x, whole)


def test_rows_of_objects_are_gathered_too():
    whole = np.array([[str(i)] for i in range(50)], dtype=object)
    slots = Slots(units=30, micro_batches=1, rows=30)
    sampler = PoissonSampler(50, 10)
    x, y, mask = PrivateBatches(whole, np.arange(50), single_rows(50), sampler, slots=slots)[0]
    assert [row[0] for row in x[mask > 0]] == [str(i) for i in y[mask > 0]]
