"""Arrays of a step lie in memory that the step before gave back."""

import math
import subprocess
import sys

import numpy as np
import pytest

import lipdp
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.training import heap

FAULTS = """
import resource, sys
import keras, numpy as np
import lipdp
from lipdp import layers as ll
from lipdp.training import heap

if sys.argv[1] == "without":
    heap.serve_from_heap = lambda largest, environment: False

class Faults(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def on_epoch_end(self, epoch, logs=None):
        self.count = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self.before

layers = [ll.BoundedInput((784,), 10.0), ll.SpectralDense(256), ll.MaxMin(), ll.SpectralDense(10)]
model = lipdp.Sequential(layers)
model.compile(
    "sgd",
    lipdp.losses.MulticlassHinge(margin=1.0),
    privacy=lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5),
)
x, y, faults = np.ones((20480, 784), "float32"), np.arange(20480) % 10, Faults()
model.fit(x, y, batch_size=1024, epochs=3, verbose=0, callbacks=[faults])
print(faults.count)
"""


@pytest.mark.slow
@pytest.mark.skipif(not heap._is_glibc(), reason="another C library")
def test_a_step_needs_few_new_pages():
    """Counted in the last of three epochs of 20 steps; a batch alone has 784 pages."""
    found = {}
    for which in ("with", "without"):
        told = [sys.executable, "-c", FAULTS, which]
        answer = subprocess.run(told, capture_output=True, text=True, check=True)
        found[which] = int(answer.stdout.split()[-1])
    assert found["with"] < 20 * 784 / 2
    # What it is good for: should TensorFlow's reader leave the rule alone, this can go.
    assert found["without"] > 4 * found["with"]


@pytest.mark.parametrize("name", heap._CHOSEN_BY_USER)
def test_what_the_user_chose_stays(name):
    assert heap.serve_from_heap(2**23, {name: "1"}) is False


def test_other_c_libraries_are_left_alone(monkeypatch):
    def unknown(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(heap.os, "confstr", unknown)
    assert heap.serve_from_heap(2**23, {}) is False


@pytest.mark.skipif(not heap._is_glibc(), reason="another C library")
def test_it_is_done_where_it_can_be():
    assert heap.serve_from_heap(2**23, {}) is True


@pytest.mark.parametrize(
    ("batch_size", "micro_batch_size", "largest"),
    [
        (64, None, 8 << 20),
        (2**12, None, math.ceil(1.2 * 2**24)),
        (2**14, None, 32 << 20),
        (2**14, 2**12, math.ceil(1.2 * 2**24)),
    ],
)
def test_the_heap_serves_arrays_as_large_as_a_part_of_a_batch(
    monkeypatch, batch_size, micro_batch_size, largest
):
    """Rows of 1,024 numbers of 4 bytes."""
    asked = []
    monkeypatch.setattr(heap, "serve_from_heap", lambda largest, environment: asked.append(largest))
    model = lipdp.Sequential([BoundedInput((1024,), 1.0), SpectralDense(2)])
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-7)
    model.compile("sgd", lipdp.losses.MulticlassHinge(margin=1.0), privacy=budget)
    rows = np.zeros((2**14, 1024), "float32"), np.zeros(2**14, int)
    model.fit(*rows, batch_size=batch_size, micro_batch_size=micro_batch_size, epochs=1, verbose=0)
    assert asked == [largest]
