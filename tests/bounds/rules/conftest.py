"""Exact derivatives of one sample, by automatic differentiation."""

import numpy as np
import pytest
import tensorflow as tf


def _jacobian(layer, x):
    x = np.asarray(x, dtype=layer.compute_dtype)
    outputs = int(np.prod(layer(x[None]).shape))
    rows = tf.constant(np.repeat(x[None], outputs, axis=0))
    with tf.GradientTape() as tape:
        tape.watch(rows)
        y = layer(rows)
    cotangents = tf.reshape(tf.eye(outputs, dtype=y.dtype), tf.shape(y))
    gradient = tape.gradient(y, rows, output_gradients=cotangents)
    return gradient.numpy().astype("float64").reshape(outputs, -1)


@pytest.fixture(scope="session")
def jacobian():
    """``jacobian(layer, x)``: the matrix dy/dx of one sample, one copy of it for each output."""
    return _jacobian
