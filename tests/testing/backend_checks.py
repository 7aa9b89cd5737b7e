"""Checks that need nothing but Keras, run under each backend by test_backends.py."""

import math
import sys

import keras
import numpy as np
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point, per_sample_gradient_norms
from lipdp.errors import BoundViolation
from lipdp.layers import BoundedEmbedding, BoundedInput, MaxMin, SpectralDense
from lipdp.layers.base import NonExpansiveLayer
from lipdp.losses import (
    HKR,
    ClippedLoss,
    CosineLoss,
    MulticlassHinge,
    TemperedBinaryCrossentropy,
    TemperedCrossentropy,
)
from lipdp.testing import check_layer, check_loss, check_model
from lipdp.testing.parts import LAYERS


class Sort(NonExpansiveLayer):
    def call(self, x):
        a, b = x[..., ::2], x[..., 1::2]
        up = ops.relu(a - b)
        return ops.concatenate([a - up, b + up], axis=-1)


class Centre(NonExpansiveLayer):
    def call(self, x):
        return x - ops.mean(x, axis=0, keepdims=True)


class Double(NonExpansiveLayer):
    def call(self, x):
        return 2.0 * x


class BatchClip(NonExpansiveLayer):
    def call(self, x):
        @ops.custom_gradient
        def identity(t):
            def backward(*args, upstream=None):
                g = args[0] if upstream is None else upstream
                return g / ops.maximum(ops.sqrt(ops.sum(ops.square(g))), 1.0)

            return ops.copy(t), backward

        return identity(x)


def caught(layer):
    try:
        check_layer(layer, (6,), 2.0)
    except BoundViolation:
        return True
    return False


def check_probe():
    layer = keras.layers.Dense(2, kernel_constraint="non_neg")
    layer.build((None, 3))
    layer.kernel.assign(-np.ones((3, 2)))
    unused = Point((2,))
    probe = GradientProbe([layer, unused], lambda x: ops.sum(ops.square(layer(x))))
    for scale in (1.0, 2.0):
        value, (kernel, bias, nothing) = probe.probe(np.full((1, 3), scale, "float32"))
        assert value == 2 * (3 * scale) ** 2
        np.testing.assert_array_equal(kernel, np.full((3, 2), -6 * scale**2))
        np.testing.assert_array_equal(bias, np.full(2, -6 * scale))
        np.testing.assert_array_equal(nothing, np.zeros(2))
    np.testing.assert_array_equal(ops.convert_to_numpy(layer.kernel), -np.ones((3, 2)))


def check_per_sample_norms():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    x, y = np.random.default_rng(0).normal(size=(5, 3)), np.arange(5) % 4
    norms = per_sample_gradient_norms(model, TemperedCrossentropy(2.0), x, y)
    logits = ops.convert_to_numpy(model(x.astype("float32")))
    weights = np.exp(2 * (logits - logits.max(axis=1, keepdims=True)))
    gradient = weights / weights.sum(axis=1, keepdims=True) - np.eye(4)[y]
    bias = np.linalg.norm(gradient, axis=1)
    np.testing.assert_allclose(norms[:, 1], bias, rtol=1e-4)
    np.testing.assert_allclose(norms[:, 0], bias * np.linalg.norm(x, axis=1), rtol=1e-4)


def check_layers():
    assert check_layer(Sort(), (6,), 2.0).best > 0.999
    for layer in (Centre(), Double(), BatchClip()):
        assert caught(layer), layer.name


def check_own_layers_0():
    _check_parts(0)


def check_own_layers_1():
    _check_parts(1)


def check_own_layers_2():
    _check_parts(2)


def check_own_layers_3():
    _check_parts(3)


def _check_parts(share):
    """Every fourth layer of the package, so that shares can run side by side.

    JAX, which takes four times as long as PyTorch, leaves out what is special about a layer; of
    convolutions test_convolution.py runs that too.
    """
    parts = [part for part in LAYERS if part.plain or keras.backend.backend() != "jax"]
    for part in parts[share::4]:
        assert part.check().best > part.least, part.name


def check_merging_layers():
    k = keras.layers
    for layer, shapes in [
        (k.Add(), [(4,), (4,)]),
        (k.Concatenate(), [(4,), (3,)]),
        (k.Multiply(), [(2, 3), (2, 1)]),
    ]:
        assert check_layer(layer, shapes, [1.0, 2.0]).best > 0.999


def check_ids():
    assert check_layer(BoundedEmbedding(6, 3), (5,), 1.0, ids=6).best > 0.999


def check_models():
    keras.utils.set_random_seed(0)
    inputs = {name: keras.Input((4,), name=name) for name in ("a", "b")}
    one, other = (BoundedInput((4,), radius=1.0)(t) for t in inputs.values())
    dropped = keras.layers.Dropout(0.5)(SpectralDense(4)(one))
    joined = keras.layers.Concatenate()([one, MaxMin()(dropped), other])
    model = keras.Model(inputs, SpectralDense(3)(joined))
    assert check_model(model, MulticlassHinge(0.5), starts=3).best > 0.8
    ids = keras.Input((3,), dtype="int32")
    flat = keras.layers.Flatten()(BoundedEmbedding(5, 2)(ids))
    model = keras.Model(ids, SpectralDense(2)(flat))
    assert check_model(model, TemperedCrossentropy(4.0), starts=3).best > 0.2


def check_losses():
    for loss, outputs in [
        (TemperedCrossentropy(4.0), 5),
        (TemperedBinaryCrossentropy(4.0), 1),
        (MulticlassHinge(0.5), 4),
        (HKR(2.0, 0.5), 3),
        (CosineLoss(0.5), 4),
        (ClippedLoss(TemperedCrossentropy(4.0), 0.5), 5),
    ]:
        assert check_loss(loss, outputs, 0.7).best > 0.97


def check_hinge_at_ties():
    point = Point((2, 4))
    loss = MulticlassHinge(1.0)
    probe = GradientProbe(point, lambda y: ops.sum(loss.call(y, point.value)))
    _, (gradient,) = probe.probe(np.array([0, 2]))
    np.testing.assert_array_equal(gradient, [[-1, 1, 0, 0], [1, 0, -1, 0]])
    assert loss.lipschitz(math.inf, 4) == math.sqrt(2)


def check_training_with_a_clipped_loss():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    loss = ClippedLoss(TemperedCrossentropy(4.0), 0.01, reduction="sum")
    model.compile(keras.optimizers.SGD(1.0), loss)
    before = np.array(ops.convert_to_numpy(model.layers[0].bias))  # not a view of the variable
    model.fit(np.ones((8, 3)), np.zeros(8), batch_size=8, verbose=0)
    moved = np.linalg.norm(ops.convert_to_numpy(model.layers[0].bias) - before)
    assert abs(moved - 0.08) < 1e-5


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
