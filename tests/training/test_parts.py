"""Rows at a time that nobody named."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.layers import BoundedInput, MaxMin, SpectralConv2D, SpectralDense
from lipdp.training import memory
from lipdp.training.devices import Devices

HOST = Devices(in_host_memory=True)


def network(filters=32):
    """Its largest array has 28 * 28 * filters numbers of four bytes a row."""
    return lipdp.Sequential(
        [
            BoundedInput((28, 28, 1), radius=10.0),
            SpectralConv2D(filters, 3),
            MaxMin(),
            keras.layers.MaxPooling2D(4),
            keras.layers.Flatten(),
            SpectralDense(2),
        ]
    )


def test_the_largest_array_counts():
    assert memory.most_bytes_of_a_row(network()) == 28 * 28 * 32 * 4
    wide_input = lipdp.Sequential([BoundedInput((50,), 1.0), SpectralDense(10)])
    assert memory.most_bytes_of_a_row(wide_input) == 200


def test_arrays_of_a_part_stay_within_the_limit():
    model = network()
    found = memory.rows_at_a_time(model, HOST, 1024)
    assert found * 28 * 28 * 32 * 4 <= 32 << 20 < (found + 1) * 28 * 28 * 32 * 4
    # Of a larger batch just as many: memory does not grow.
    assert memory.rows_at_a_time(model, HOST, 100_000) == found


def test_xla_keeps_all_arrays_of_a_step_in_one_block(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    assert memory.rows_at_a_time(network(), HOST, 1024) == (8 << 20) // (28 * 28 * 32 * 4)


@pytest.mark.parametrize("rows", [1, 64, 256])
def test_a_batch_that_fits_stays_whole(rows):
    assert memory.rows_at_a_time(network(), HOST, rows) is None


def test_a_narrow_network_takes_any_usual_batch_as_a_whole():
    model = lipdp.Sequential([BoundedInput((784,), 1.0), SpectralDense(256), SpectralDense(10)])
    assert memory.rows_at_a_time(model, HOST, 8192) is None


def test_an_accelerator_gets_the_whole_batch():
    assert memory.rows_at_a_time(network(), Devices(), 100_000) is None


def test_few_rows_of_large_arrays_stay_together(monkeypatch):
    monkeypatch.setattr(memory, "_MOST", 1 << 20)
    assert memory.rows_at_a_time(network(), HOST, 32) is None
    assert memory.rows_at_a_time(network(), HOST, 33) == 32


@pytest.mark.parametrize(("given", "most"), [(None, 34), (20, 20), (1000, 1000)])
def test_fit_takes_them_unless_it_is_told(monkeypatch, given, most):
    monkeypatch.setattr(memory, "_MOST", 34 * 28 * 28 * 4 * 4)
    model = network(filters=4)
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, seed=0)
    model.compile("sgd", lipdp.losses.MulticlassHinge(margin=1.0), privacy=budget)
    x, y = np.ones((200, 28, 28, 1), "float32"), np.arange(200) % 2
    model.fit(x, y, batch_size=100, epochs=1, micro_batch_size=given, verbose=0)
    slots, capacity = model.plan.slots, model.plan.capacity.rows
    assert slots.rows <= most
    assert slots.micro_batches == -(-capacity // most)
    assert model.ledger.steps == 2
