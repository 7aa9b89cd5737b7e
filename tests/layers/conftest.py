"""Exact derivatives of one sample, by automatic differentiation in float64."""

import numpy as np
import pytest
import tensorflow as tf


def _vjp(layer, x, g):
    x = tf.constant(np.asarray(x)[None])
    weights = [v.value for v in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    cotangent = tf.constant(np.asarray(g)[None], dtype=y.dtype)
    to_x, *to_weights = tape.gradient(y, [x, *weights], output_gradients=cotangent)
    return to_x.numpy()[0], [w.numpy() for w in to_weights]


def _jacobian(layer, x):
    shape = layer(np.asarray(x)[None]).shape[1:]
    basis = np.eye(int(np.prod(shape)))
    return np.stack([_vjp(layer, x, e.reshape(shape))[0].ravel() for e in basis])


@pytest.fixture(scope="session")
def vjp():
    """``vjp(layer, x, g)``: cotangents of x and of each trainable weight, for one sample."""
    return _vjp


@pytest.fixture(scope="session")
def jacobian():
    """``jacobian(layer, x)``: the matrix dy/dx of one sample, as autodiff returns it."""
    return _jacobian


@pytest.fixture(scope="session")
def operator_norm(jacobian):
    """``operator_norm(layer, x)``: spectral norm of that matrix."""
    return lambda layer, x: float(np.linalg.norm(jacobian(layer, x), 2))
