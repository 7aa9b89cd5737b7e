"""Steps of Keras models: plain, Lipschitz, and private; one turn is an epoch of ``fit``.

Run by benchmarks.race: python -m benchmarks.workers.keras_steps CELL, the cell as JSON with
``net`` (mlp or cnn), ``kind`` (plain, lipschitz or private), ``activation``, ``pooling``,
``batch``, ``steps`` and ``jit``.
"""

import json
import sys
from typing import Any

import keras
import numpy as np

import lipdp
from benchmarks.workers.turns import Turns
from benchmarks.workers.untuned import without_tuning_threads
from lipdp import layers as ll

CLASSES = 10
SHAPES = {"mlp": (784,), "cnn": (28, 28, 1)}


def activation(name: str) -> keras.layers.Layer:
    """A fresh layer."""
    return {"relu": keras.layers.ReLU, "max_min": ll.MaxMin, "group_sort": ll.GroupSort}[name]()


def pooling(name: str) -> keras.layers.Layer:
    """A fresh layer."""
    return {"max": keras.layers.MaxPooling2D, "l2": ll.L2NormPooling2D}[name](2)


def plain_layers(net: str) -> list[keras.layers.Layer]:
    """ReLU and biases, as anyone writes it."""
    relu = {"activation": "relu"}
    if net == "mlp":
        return [keras.layers.Dense(256, **relu), keras.layers.Dense(256, **relu)]
    return [
        keras.layers.Conv2D(32, 3, padding="same", **relu),
        keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(64, 3, padding="same", **relu),
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
    ]


def lipschitz_layers(cell: dict[str, Any]) -> list[keras.layers.Layer]:
    """The same widths under constraints."""
    act = cell["activation"]
    if cell["net"] == "mlp":
        pairs = [(ll.SpectralDense(256), activation(act)) for _ in range(2)]
        return [layer for pair in pairs for layer in pair]
    found: list[keras.layers.Layer] = []
    for filters in (32, 64):
        found += [ll.SpectralConv2D(filters, 3), activation(act), pooling(cell["pooling"])]
    return [*found, keras.layers.Flatten()]


def make_model(cell: dict[str, Any]) -> keras.Model:
    """A compiled model."""
    shape, jit = SHAPES[cell["net"]], cell.get("jit", "auto")
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    if cell["kind"] == "plain":
        head = keras.layers.Dense(CLASSES)
        model = keras.Sequential([keras.Input(shape), *plain_layers(cell["net"]), head])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, jit_compile=jit)
        return model
    front = ll.BoundedInput(shape, radius=10.0)
    model = lipdp.Sequential([front, *lipschitz_layers(cell), ll.SpectralDense(CLASSES)])
    private = cell["kind"] == "private"
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-7) if private else None
    loss = lipdp.losses.TemperedCrossentropy(inverse_temperature=16.0)
    model.compile(optimizer, loss, privacy=budget, jit_compile=jit)
    return model


class EpochTurns(keras.callbacks.Callback):
    """Lets ``fit`` go on for an epoch when it is told to.

    The reader of a private training stays ahead of it, by as much at the end of a turn as at the
    beginning: a turn pays for as many batches as it has steps.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        without_tuning_threads()
        self._turns = Turns(steps)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Waits for the turn."""
        if not self._turns.wait():
            raise SystemExit(0)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Says what it cost."""
        self._turns.done()


def main() -> None:
    """Trains until nobody asks for more."""
    cell = json.loads(sys.argv[1])
    rng = np.random.default_rng(0)
    rows = cell["batch"] * cell["steps"]
    # Nothing larger than the rows themselves: it would hide how memory grows in training.
    x = rng.standard_normal((rows, *SHAPES[cell["net"]]), dtype="float32")
    y = rng.integers(0, CLASSES, rows)
    model = make_model(cell)
    turns = EpochTurns(cell["steps"])
    model.fit(x, y, batch_size=cell["batch"], epochs=10_000, verbose=0, callbacks=[turns])


if __name__ == "__main__":
    main()
