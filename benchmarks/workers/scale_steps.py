"""Steps of MLPs of any depth, width and number of classes; one turn is an epoch of ``fit``.

Run by benchmarks.race: python -m benchmarks.workers.scale_steps CELL, the cell as JSON with
``depth``, ``width``, ``classes``, ``kind`` (plain, lipschitz or private), ``batch`` and ``steps``.
"""

import json
import sys
from typing import Any

import keras
import numpy as np

import lipdp
from benchmarks.workers.keras_steps import EpochTurns
from lipdp import layers as ll

FEATURES = 256


def make_model(cell: dict[str, Any]) -> keras.Model:
    """A compiled model."""
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    depth, width, classes = cell["depth"], cell["width"], cell["classes"]
    if cell["kind"] == "plain":
        hidden = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
        model = keras.Sequential([keras.Input((FEATURES,)), *hidden, keras.layers.Dense(classes)])
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model
    pairs = [(ll.SpectralDense(width), ll.MaxMin()) for _ in range(depth)]
    layers = [layer for pair in pairs for layer in pair]
    front = ll.BoundedInput((FEATURES,), radius=10.0)
    model = lipdp.Sequential([front, *layers, ll.SpectralDense(classes)])
    private = cell["kind"] == "private"
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5) if private else None
    loss = lipdp.losses.TemperedCrossentropy(inverse_temperature=16.0)
    model.compile(optimizer, loss, privacy=budget)
    return model


def main() -> None:
    """Trains until nobody asks for more."""
    cell = json.loads(sys.argv[1])
    rng = np.random.default_rng(0)
    rows = cell["batch"] * cell["steps"]
    x = rng.normal(size=(rows, FEATURES)).astype("float32")
    y = rng.integers(0, cell["classes"], rows)
    turns = EpochTurns(cell["steps"])
    make_model(cell).fit(
        x, y, batch_size=cell["batch"], epochs=10_000, verbose=0, callbacks=[turns]
    )


if __name__ == "__main__":
    main()
