"""Arrays of a step lie in memory that the step before gave back."""

import math
import resource
import subprocess
import sys

import numpy as np
import pytest

import lipdp
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.training import memory

FAULTS = """
import os, resource, sys

# oneDNN, which TensorFlow takes on some processors alone, keeps a pool of memory of its own.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import keras, numpy as np
import lipdp
from lipdp import layers as ll
from lipdp.training import memory

which, shape, layers, rows, batch = sys.argv[1], *map(eval, sys.argv[2:])
if which == "without":
    memory.serve_from_heap = lambda largest, environment: False

class Faults(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def on_epoch_end(self, epoch, logs=None):
        self.count = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self.before

model = lipdp.Sequential([ll.BoundedInput(shape, 10.0), *layers, ll.SpectralDense(10)])
model.compile(
    "sgd",
    lipdp.losses.MulticlassHinge(margin=1.0),
    privacy=lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5),
)
x, y, faults = np.ones((rows, *shape), "float32"), np.arange(rows) % 10, Faults()
told = {"batch_size": batch, "micro_batch_size": 2 * batch, "epochs": 3, "verbose": 0}
model.fit(x, y, callbacks=[faults], **told)
print(faults.count)
"""
#: Shape, layers, rows and batch size. The second makes arrays above glibc's own limit.
MLP = ("(784,)", "[ll.SpectralDense(256), ll.MaxMin()]", "10240", "1024")
CNN = (
    "(28, 28, 1)",
    "[ll.SpectralConv2D(32, 3), ll.MaxMin(), keras.layers.MaxPooling2D(4), keras.layers.Flatten()]",
    "5120",
    "512",
)


@pytest.mark.slow
@pytest.mark.skipif(not memory._is_glibc(), reason="another C library")
@pytest.mark.parametrize(("net", "pages"), [(MLP, 784), (CNN, 12544)])
def test_a_step_needs_few_new_pages(net, pages):
    """Counted in the last of three epochs of 10 steps; the largest array has so many pages."""
    found = {}
    for which in ("with", "without"):
        told = [sys.executable, "-c", FAULTS, which, *net]
        answer = subprocess.run(told, capture_output=True, text=True, check=True)
        found[which] = int(answer.stdout.split()[-1])
    assert found["with"] < 10 * pages / 2
    # What it is good for: should TensorFlow's reader leave the rule alone, this can go.
    assert found["without"] > 4 * found["with"]


@pytest.mark.parametrize("name", memory._CHOSEN_BY_USER)
def test_what_the_user_chose_stays(name):
    assert memory.serve_from_heap(2**23, {name: "1"}) is False


def test_other_c_libraries_are_left_alone(monkeypatch):
    def unknown(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(memory.os, "confstr", unknown)
    assert memory.serve_from_heap(2**23, {}) is False


@pytest.mark.skipif(not memory._is_glibc(), reason="another C library")
def test_it_is_done_where_it_can_be():
    assert memory.serve_from_heap(2**23, {}) is True
    assert memory.serve_from_heap(2**40, {}) is True
    memory.give_back({})


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not memory._is_glibc(), reason="another C library")
def test_what_is_free_is_kept_while_training_and_given_back_after_it():
    memory.give_back({})
    before = resident_bytes()

    def kept_after_use():
        np.ones(2**26, "uint8")
        return resident_bytes() - before

    memory.serve_from_heap(2**28, {})
    try:
        assert kept_after_use() > 2**25
        memory.give_back({"MALLOC_MMAP_MAX_": "1"})
        assert kept_after_use() > 2**25
    finally:
        memory.give_back({})
    assert resident_bytes() - before < 2**25
    # Large arrays have pages of their own again.
    assert kept_after_use() < 2**25


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch_size", "micro_batch_size", "parts", "largest"),
    [
        (64, None, 1, 8 << 20),
        (2**12, None, 1, math.ceil(1.2 * 2**24)),
        (2**14, None, 3, math.ceil(1.2 * 5462 * 2**12)),
        (2**14, 2**15, 1, math.ceil(1.2 * 2**26)),
        (2**14, 2**12, 5, math.ceil(1.2 * 3277 * 2**12)),
    ],
)
def test_the_heap_serves_arrays_as_large_as_a_part_of_a_batch(
    monkeypatch, batch_size, micro_batch_size, parts, largest
):
    """Rows of 256 numbers of 4 bytes, of which a layer makes 1,024."""
    asked, ended = [], []
    monkeypatch.setattr(
        memory, "serve_from_heap", lambda largest, environment: asked.append(largest)
    )
    monkeypatch.setattr(memory, "give_back", ended.append)
    model = lipdp.Sequential([BoundedInput((256,), 1.0), SpectralDense(1024), SpectralDense(2)])
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-7)
    model.compile("sgd", lipdp.losses.MulticlassHinge(margin=1.0), privacy=budget)
    rows = np.zeros((2**14, 256), "float32"), np.zeros(2**14, int)
    model.fit(*rows, batch_size=batch_size, micro_batch_size=micro_batch_size, epochs=1, verbose=0)
    assert model.plan.slots.micro_batches == parts
    assert asked == [largest]
    assert len(ended) == (largest > 32 << 20)
