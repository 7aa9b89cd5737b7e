# ruff: noqa: E402  # a switch must be set before the imports that read it
"""Steps of Keras 2 models: plain, and private by tensorflow-privacy; one turn is a ``fit``.

Run by benchmarks.race: python -m benchmarks.workers.tf_privacy_steps CELL, the cell as JSON with
``net`` (mlp or cnn), ``kind`` (plain, dp_model or vectorised), ``jit``, ``batch`` and ``steps``;
TF_USE_LEGACY_KERAS=1 must be set.

``DPSequential`` has its fast clipping where all layers with weights are in its registry (the MLP);
it makes vectorised gradients of rows otherwise (the CNN).
"""

import sys
from collections.abc import Callable
from typing import Any

# Read by tensorflow-privacy as it is imported: without its estimators, which TensorFlow 2.16 lost.
sys.skip_tf_privacy_import = True  # type: ignore[attr-defined]

import numpy as np
import tensorflow as tf
from tensorflow_privacy.privacy.fast_gradient_clipping import layer_registry
from tensorflow_privacy.privacy.keras_models.dp_keras_model import DPSequential
from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras_vectorized import (
    VectorizedDPKerasSGDOptimizer,
)

from benchmarks.workers.turns import serve

CLASSES = 10
SHAPES = {"mlp": (784,), "cnn": (28, 28, 1)}


def make_layers(net: str) -> list[Any]:
    """ReLU and biases."""
    layers = tf.keras.layers
    first, head = layers.Input(SHAPES[net]), layers.Dense(CLASSES)
    if net == "mlp":
        return [first, *(layers.Dense(256, activation="relu") for _ in range(2)), head]
    blocks = [
        (layers.Conv2D(f, 3, padding="same", activation="relu"), layers.MaxPooling2D(2))
        for f in (32, 64)
    ]
    return [first, *(layer for block in blocks for layer in block), layers.Flatten(), head]


def make_model(cell: dict[str, Any]) -> Any:
    """A compiled model."""
    kind, layers, jit = cell["kind"], make_layers(cell["net"]), cell["jit"]
    optimizer = tf.keras.optimizers.legacy.SGD(0.01, momentum=0.9)
    reduction = "auto"
    if kind == "dp_model":
        registry = layer_registry.make_default_layer_registry()
        model = DPSequential(1.0, 1.0, None, jit, registry, layers)
    else:
        model = tf.keras.Sequential(layers)
    if kind == "vectorised":
        reduction = "none"
        optimizer = VectorizedDPKerasSGDOptimizer(1.0, 1.0, learning_rate=0.01, momentum=0.9)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
    model.compile(optimizer, loss, jit_compile=jit and kind == "plain")
    return model


def make_turn(cell: dict[str, Any]) -> Callable[[], None]:
    """The function that trains for an epoch, of rows on the host."""
    rng = np.random.default_rng(0)
    rows = cell["batch"] * cell["steps"]
    x = rng.standard_normal((rows, *SHAPES[cell["net"]]), dtype="float32")
    y = rng.integers(0, CLASSES, rows)
    model = make_model(cell)
    return lambda: model.fit(x, y, batch_size=cell["batch"], verbose=0)


if __name__ == "__main__":
    serve(make_turn)
