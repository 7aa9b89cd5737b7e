"""Checks that need nothing but Keras, run under each backend by test_backends.py."""

import sys

import keras
import numpy as np
from keras import ops

from lipdp import layers
from lipdp.layers.clipping import AdaptiveCotangentClip


def linear_loss(cotangent, z):
    return ops.sum(cotangent * z, axis=-1)


def update(layer, x, cotangent, kernel):
    """Change of a kernel in front of the layer in one step of gradient descent with rate 1."""
    dense = keras.layers.Dense(kernel.shape[1], use_bias=False)
    model = keras.Sequential([keras.Input(x.shape[1:]), dense, layer])
    dense.kernel.assign(kernel)
    model.compile(keras.optimizers.SGD(1.0), linear_loss)
    model.fit(x, cotangent, batch_size=len(x), verbose=0)
    return ops.convert_to_numpy(dense.kernel) - kernel


def check_cotangent_clip():
    x = np.eye(4, dtype="float32")
    g = np.array([[3, 4], [30, -40], [np.nan, 1], [np.inf, 0]], "float32")
    change = update(layers.CotangentClip(5.0 / len(x)), x, g, np.zeros((4, 2), "float32"))
    expected = [[3, 4], [3, -4], [0, 0], [0, 0]]
    np.testing.assert_allclose(-change * len(x), expected, rtol=1e-6)


def check_adaptive_cotangent_clip():
    x = np.eye(5, dtype="float32")
    g = np.array([[3, 4], [30, -40], [np.nan, 1], [np.inf, 0], [0, 0]], "float32")
    layer = AdaptiveCotangentClip(10.0 / len(x))
    change = update(layer, x, g, np.zeros((5, 2), "float32"))
    expected = [[3, 4], [6, -8], [0, 0], [0, 0], [0, 0]]
    np.testing.assert_allclose(-change * len(x), expected, rtol=1e-6)
    # The plain optimizer has subtracted the count, times its rate of 1.
    assert ops.convert_to_numpy(layer.threshold) == 10.0 / len(x) - 3.0
    for count, new in [(np.nan, 2.0), (np.inf, 2e3), (-np.inf, 2e-3), (1.0, 2.0)]:
        layer.threshold.assign(2.0)
        found = ops.convert_to_numpy(layer.updated(ops.convert_to_tensor(count, "float32"), 10))
        np.testing.assert_allclose(found, new, rtol=1e-6)
    for dtype in ("float32", "float64"):
        layer = AdaptiveCotangentClip(0.7, minimum=0.3, maximum=1.7, dtype=dtype)
        layer.build((None, 2))
        for weight, radius in [(np.nan, 0.3), (-1.0, 0.3), (9.0, 1.7)]:
            layer.threshold.assign(weight)
            found = ops.convert_to_numpy(layer.radius())
            assert found == found.dtype.type(radius)


def check_sorting_at_ties():
    g = np.array([[1.0, 2.0, 4.0, 8.0]], "float32")
    sorts = [layers.GroupSort(), layers.GroupSort(4), layers.MaxMin(), layers.FullSort()]
    for layer in [*sorts, layers.HouseholderActivation()]:
        change = update(layer, np.ones((1, 1), "float32"), g, np.zeros((1, 4), "float32"))
        np.testing.assert_allclose(np.sort(-change), g, rtol=1e-6)


def check_non_finite_and_extreme_rows():
    rows = [[np.nan, 1], [np.inf, 1], [1e38, 3e38], [0, 0], [1e-44, 0], [3, 4]]
    x = np.array(rows, "float32")
    model = keras.Sequential([layers.BoundedInput((2,), 1.0)])
    result = np.asarray(model.predict(x, verbose=0), dtype="float64")
    assert not np.any(result[[0, 1, 3]])
    np.testing.assert_allclose(np.linalg.norm(result[[2, 5]], axis=1), 1.0, rtol=1e-6)
    for layer in (layers.ActivationClip(1.0), layers.SphereNormalization(1.0, 1.0)):
        g = np.ones((1, 2), "float32")
        for start in ([[0.0, 0.0]], [[3e38, 3e38]]):
            change = update(layer, np.full((1, 1), 10.0, "float32"), g, np.array(start, "float32"))
            assert np.all(np.isfinite(change))


def check_weights_stay_in_their_sets():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 20)).astype("float32"), rng.normal(size=(64, 3))
    inner = [layers.SpectralDense(30), layers.BoundedBias(0.1), layers.FrobeniusDense(3, 0.5)]
    model = keras.Sequential([layers.BoundedInput((20,), 5.0), *inner])
    model.compile(keras.optimizers.SGD(50.0), "mse")
    for _ in range(2):
        for layer in inner:
            weight = ops.convert_to_numpy(layer.trainable_variables[0])
            assert layer.constraint.bound_of(weight) <= layer.constraint.norm_bound
        model.fit(x, y, batch_size=16, verbose=0)
    values = np.linalg.svd(ops.convert_to_numpy(inner[0].kernel), compute_uv=False)
    assert values.max() > 0.98


def check_float64_layers():
    layer = layers.SpectralDense(8, dtype="float64")
    layer.build((None, 8))
    assert layer.lipschitz(1.0) <= 1.0


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
