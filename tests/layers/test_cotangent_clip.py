import keras
import numpy as np
import pytest
import tensorflow as tf

from lipdp.layers import CotangentClip
from lipdp.numerics import unit_roundoff


def sent_back(layer, g, **options):
    g = tf.constant(g)

    @tf.function(**options)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return y, tape.gradient(y, x, output_gradients=g)

    y, back = run(tf.ones_like(g)) if options else run.python_function(tf.ones_like(g))
    np.testing.assert_array_equal(y, np.ones(g.shape))
    return back.numpy()


@pytest.mark.parametrize("options", [{}, {"jit_compile": False}, {"jit_compile": True}], ids=str)
def test_clips_each_sample_and_drops_non_finite_ones(options):
    layer = CotangentClip(5.0)
    layer.build((None, 2))
    g = [[3.0, 4.0], [30.0, -40.0], [np.nan, 1.0], [np.inf, 0.0], [1e38, 1e38], [0.0, 0.0]]
    back = sent_back(layer, np.array(g, np.float32), **options)
    np.testing.assert_allclose(back[:2], [[3, 4], [3, -4]], rtol=1e-6)
    assert not np.any(back[[2, 3, 5]])
    norms = np.linalg.norm(back.astype("float64"), axis=1)
    assert np.all(norms <= 5.0 * (1.0 + layer.rounding(unit_roundoff("float32"))))
    assert norms[4] > 4.999


def test_bounds():
    layer = CotangentClip(2.0)
    layer.build((None, 3))
    assert layer.forward_bound(7.0) == 7.0
    assert layer.backward_bound(7.0, np.inf) == 2.0
    assert layer.backward_bound(7.0, 1.5) == 1.5
    assert layer.lipschitz(7.0) == 1.0


@pytest.mark.parametrize("mode", ["eager", "graph", "jit"])
def test_bounds_the_update_under_fit(mode):
    dense = keras.layers.Dense(2, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((3,)), dense, CotangentClip(1e-3)])
    options = {"run_eagerly": mode == "eager", "jit_compile": mode == "jit"}
    model.compile(keras.optimizers.SGD(1.0), lambda y, z: 1e6 * keras.ops.sum(z, -1), **options)
    x = np.array([[0.0, 3.0, 4.0]], np.float32)
    model.fit(x, np.zeros((1, 1)), verbose=0)
    norm = np.linalg.norm(keras.ops.convert_to_numpy(dense.kernel))
    assert norm == pytest.approx(5e-3, rel=1e-5)
