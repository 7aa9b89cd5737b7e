"""BoundedInput, ActivationClip and SphereNormalization."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.layers import ActivationClip, BoundedInput, SphereNormalization
from lipdp.numerics import unit_roundoff

anything = hnp.arrays(
    np.float32,
    (4, 6),
    elements=st.floats(width=32, allow_nan=True, allow_infinity=True),
)
HUGE = np.full((4, 6), 1e38, np.float32)
TINY = np.full((4, 6), 1e-44, np.float32)


def projected(layer, x):
    return keras.ops.convert_to_numpy(layer(x)).astype("float64")


@given(x=anything, radius=st.sampled_from([1e-6, 1.0, 1e10]))
@example(x=HUGE, radius=1.0)
@example(x=-HUGE * 3, radius=1e-6)
@example(x=TINY, radius=1e-6)
@example(x=np.eye(4, 6, dtype=np.float32), radius=1.0)
def test_every_row_ends_in_the_ball(x, radius):
    layer = BoundedInput((6,), radius)
    layer.build((None, 6))
    norms = np.linalg.norm(projected(layer, x), axis=1)
    assert np.all(norms <= radius * (1.0 + layer.rounding(unit_roundoff("float32"))))


@given(x=hnp.arrays(np.float64, (3, 2, 2), elements=st.floats(-1e150, 1e150)))
@example(x=np.zeros((3, 2, 2)))
def test_is_the_projection(x):
    layer = ActivationClip(2.0, dtype="float64")
    layer.build((None, 2, 2))
    norms = np.linalg.norm(x.reshape(3, 4), axis=1)[:, None, None]
    expected = x * (2.0 / np.maximum(norms, 2.0))
    np.testing.assert_allclose(projected(layer, x), expected, rtol=1e-13, atol=1e-300)


@given(x=hnp.arrays(np.float64, (3, 4), elements=st.floats(-1e150, 1e150)))
@example(x=np.zeros((3, 4)))
def test_is_the_normalisation(x):
    layer = SphereNormalization(3.0, 0.1, dtype="float64")
    layer.build((None, 4))
    norms = np.linalg.norm(x, axis=1)[:, None]
    expected = x * (3.0 / np.maximum(norms, 0.1))
    np.testing.assert_allclose(projected(layer, x), expected, rtol=1e-13, atol=1e-300)


LAYERS = [
    lambda: ActivationClip(1.0),
    lambda: BoundedInput((3,), 1.0),
    lambda: SphereNormalization(2.0, 0.5),
]


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_rows_become_zero_with_zero_derivative(make, bad, vjp):
    layer = make()
    layer.build((None, 3))
    good = np.array([0.3, 0.0, 0.4], np.float32)
    row = np.array([1.0, bad, 2.0], np.float32)
    result = projected(layer, np.stack([good, row]))
    assert np.linalg.norm(result[0]) > 0.4
    assert not np.any(result[1])
    assert not np.any(vjp(layer, row, good)[0])


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("scale", [0.0, 1e-44, 1e-20, 0.5, 1.0, 1e20, 1e38])
def test_derivative_is_finite_and_bounded_at_every_scale(make, scale, operator_norm):
    layer = make()
    layer.build((None, 3))
    row = np.array([scale, 0.0, -scale], np.float32)
    slack = 1.0 + layer.rounding(unit_roundoff("float32"))
    assert operator_norm(layer, row) <= layer.backward_bound(1.0, 1.0) * slack


def test_derivative_outside_is_tangential(jacobian):
    layer = ActivationClip(1.0, dtype="float64")
    layer.build((None, 2))
    matrix = jacobian(layer, np.array([0.0, 4.0]))
    np.testing.assert_allclose(matrix, [[0.25, 0], [0, 0]], atol=1e-15)


def test_normalisation_attains_its_constant(operator_norm):
    layer = SphereNormalization(2.0, 0.5, dtype="float64")
    layer.build((None, 2))
    assert operator_norm(layer, np.array([0.1, 0.1])) == layer.backward_bound(1.0, 1.0) == 4.0
    assert layer.forward_bound(0.25) == 1.0
    assert layer.forward_bound(np.inf) == 2.0


def test_bounded_input_builds_a_sequential_and_takes_integers():
    model = keras.Sequential([BoundedInput((2, 2), 5.0), keras.layers.Flatten()])
    assert model.built
    assert model.output_shape == (None, 4)
    pixels = np.full((1, 2, 2), 255, np.uint8)
    np.testing.assert_allclose(projected(model, pixels), np.full((1, 4), 2.5), rtol=1e-6)
    layer = BoundedInput((2, 2), 5.0)
    layer.build((None, 2, 2))
    np.testing.assert_allclose(projected(layer, pixels), np.full((1, 2, 2), 2.5), rtol=1e-6)


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("jit", [False, True])
def test_compiled_graphs_keep_huge_rows_in_the_ball(make, jit):
    layer = make()
    layer.build((None, 3))
    rows = np.array([[1e38, -3e38, 0.0], [np.nan, 1.0, 1.0], [0.1, 0.2, 0.0]], np.float32)
    compiled = tf.function(layer, jit_compile=jit)
    np.testing.assert_allclose(compiled(rows).numpy(), layer(rows).numpy(), rtol=1e-6)
    norms = np.linalg.norm(compiled(rows).numpy().astype("float64"), axis=1)
    np.testing.assert_allclose(norms[:2], [layer.forward_bound(np.inf), 0.0], rtol=1e-6)
