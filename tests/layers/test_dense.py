"""SpectralDense and FrobeniusDense."""

import subprocess
import sys

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.layers import FrobeniusDense, SpectralDense
from lipdp.projections import frobenius_norm_bound, spectral_norm_bound


def kernel(layer):
    return keras.ops.convert_to_numpy(layer.kernel)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(16, 16), (784, 32), (5, 40), (7, 1), (1, 7)])
def test_kernels_start_inside_their_set(shape, dtype):
    spectral = SpectralDense(shape[1], dtype=dtype)
    spectral.build((None, shape[0]))
    values = np.linalg.svd(kernel(spectral), compute_uv=False)
    assert spectral_norm_bound(kernel(spectral)) <= 1.0
    assert np.min(values) > 1.0 - 2e-3
    frobenius = FrobeniusDense(shape[1], radius=0.3, dtype=dtype)
    frobenius.build((None, shape[0]))
    assert np.linalg.norm(kernel(frobenius)) > 0.2999
    assert frobenius_norm_bound(kernel(frobenius)) <= 0.3


@given(
    positions=st.sampled_from([(), (1,), (3,), (2, 2)]),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    seed=st.integers(0, 10**6),
)
def test_parameter_bound_is_attained_by_aligned_positions(positions, sizes, seed, vjp):
    inputs, units = sizes
    rng = np.random.default_rng(seed)
    layer = SpectralDense(units, dtype="float64")
    layer.build((None, *positions, inputs))
    x = np.broadcast_to(rng.normal(size=inputs), (*positions, inputs))
    g = np.broadcast_to(rng.normal(size=units), (*positions, units))
    bound = layer.parameter_bounds(float(np.linalg.norm(x)), float(np.linalg.norm(g)))[0]
    norm = np.linalg.norm(vjp(layer, x, g)[1][0])
    assert 0.999 * bound < norm <= bound * (1.0 + layer.rounding(2.0**-53))


def test_training_never_leaves_the_set():
    rng = np.random.default_rng(0)
    layers = [SpectralDense(6), FrobeniusDense(3, radius=0.5)]
    model = keras.Sequential([keras.Input((5,)), *layers])
    model.compile(keras.optimizers.SGD(50.0), "mse")
    model.fit(rng.normal(size=(64, 5)), rng.normal(size=(64, 3)), batch_size=8, verbose=0)
    for layer in layers:
        assert layer.lipschitz(1.0) <= layer.constraint.norm_bound


def test_a_kernel_put_outside_its_set_is_not_overlooked():
    layer = SpectralDense(2)
    layer.build((None, 2))
    layer.kernel.assign(np.diag([3.0, 1.0]))
    assert layer.backward_bound(1.0, 1.0) >= 3.0
    assert layer.lipschitz(1.0) >= 3.0


def test_present_and_frozen_kernels_use_their_own_norm():
    layer = SpectralDense(2)
    layer.build((None, 2))
    layer.kernel.assign(np.diag([0.25, 0.1]))
    assert 0.25 <= layer.lipschitz(1.0) < 0.2501
    assert layer.backward_bound(1.0, 1.0) == 1.0
    layer.trainable = False
    assert 0.25 <= layer.backward_bound(1.0, 1.0) < 0.2501
    assert 0.25 <= layer.forward_bound(1.0) < 0.2501


def test_nan_kernel_has_no_bound():
    layer = SpectralDense(2)
    layer.build((None, 2))
    layer.kernel.assign(np.full((2, 2), np.nan))
    assert layer.forward_bound(1.0) == np.inf


def test_there_is_no_bias_and_the_seed_decides_the_start():
    starts = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        layer = SpectralDense(4)
        layer.build((None, 3))
        starts.append(kernel(layer))
    np.testing.assert_array_equal(*starts)
    assert [v.name for v in layer.weights] == ["kernel"]


_SHORT_AXES = """
import numpy as np
from lipdp.bounds.probe import GradientProbe
from lipdp.layers import SpectralDense
from keras import ops

layer = SpectralDense(6)
x = np.random.default_rng(0).normal(size=(40, 1, 2, 16)).astype("float32")
for _ in range(20):
    y = ops.convert_to_numpy(layer(x))
assert np.allclose(y, x @ ops.convert_to_numpy(layer.kernel), atol=1e-5)
probe = GradientProbe(layer, lambda t: ops.sum(layer(t)))
for _ in range(20):
    probe.probe(x)
"""


def test_a_short_inner_axis_does_not_corrupt_memory():
    # TensorFlow's batched product of this shape writes out of its memory and kills the process.
    done = subprocess.run([sys.executable, "-c", _SHORT_AXES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
