import keras
import numpy as np
import pytest
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point, per_sample_gradient_norms
from lipdp.errors import InvalidState


class NonNegative(keras.constraints.Constraint):
    def __call__(self, w):
        return ops.relu(w)


def test_value_and_gradient_of_a_point():
    point = Point((2, 3))
    probe = GradientProbe(point, lambda: ops.sum(ops.square(point.value)))
    for values in (np.arange(6.0).reshape(2, 3), -np.ones((2, 3))):
        point.assign(values)
        value, (gradient,) = probe.probe()
        assert value == np.sum(values**2)
        np.testing.assert_array_equal(gradient, 2 * values)
        np.testing.assert_array_equal(ops.convert_to_numpy(point.value), values)


def test_inputs_and_several_parts():
    a, b = Point((3,)), Point((3,))
    probe = GradientProbe([a, b], lambda t, s: ops.sum(a.value * t) + ops.sum(b.value * s))
    a.assign(np.ones(3))
    value, gradients = probe.probe(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    assert value == 6.0
    np.testing.assert_array_equal(gradients, [[1, 2, 3], [4, 5, 6]])


def test_value_is_in_the_precision_asked_for():
    point = Point((1,), dtype="float64")
    probe = GradientProbe(point, lambda: ops.sum(point.value), dtype="float64")
    point.assign(np.array([1.0 + 1e-12]))
    assert probe.probe()[0] == 1.0 + 1e-12


def test_variables_and_constraints_are_left_alone():
    layer = keras.layers.Dense(2, kernel_constraint=NonNegative())
    layer.build((None, 3))
    layer.kernel.assign(-np.ones((3, 2)))
    probe = GradientProbe(layer, lambda x: ops.sum(layer(x)))
    _, (kernel, bias) = probe.probe(np.ones((4, 3), "float32"))
    np.testing.assert_array_equal(ops.convert_to_numpy(layer.kernel), -np.ones((3, 2)))
    np.testing.assert_array_equal(kernel, np.full((3, 2), 4.0))
    np.testing.assert_array_equal(bias, [4.0, 4.0])


def test_unused_variable_has_gradient_zero_even_after_it_was_used():
    a, b = Point((2,)), Point((2,))

    def function(t):
        return ops.sum(a.value) + (ops.sum(b.value) if t.shape[0] == 2 else 0.0)

    probe = GradientProbe([a, b], function)
    np.testing.assert_array_equal(probe.probe(np.zeros(2))[1][1], [1, 1])
    np.testing.assert_array_equal(probe.probe(np.zeros(3))[1][1], [0, 0])


def test_non_finite_gradients_are_reported():
    point = Point((1,))
    probe = GradientProbe(point, lambda: ops.sum(ops.sqrt(point.value)))
    assert not np.isfinite(probe.probe()[1][0]).any()


def test_order_is_that_of_trainable_variables():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2)])
    model.layers[0].trainable = False
    probe = GradientProbe(model, lambda x: ops.sum(model(x)))
    assert [id(v) for v in probe.variables] == [id(v) for v in model.trainable_variables]


def test_unbuilt_layers_are_refused():
    with pytest.raises(InvalidState):
        GradientProbe(keras.layers.Dense(2), lambda: 0.0)


def test_jit_compiled():
    point = Point((3,))
    probe = GradientProbe(point, lambda: ops.sum(point.value**3), jit_compile=True)
    point.assign(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(probe.probe()[1][0], [3, 12, 27], rtol=1e-6)


def model_with_bias():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)])


def test_per_sample_norms_of_a_linear_model():
    model = model_with_bias()
    x, y = np.random.default_rng(0).normal(size=(5, 3)), np.zeros((5, 2))
    norms = per_sample_gradient_norms(model, keras.losses.MeanSquaredError(), x, y)
    residual = ops.convert_to_numpy(model(x))
    bias = np.linalg.norm(residual, axis=1)
    assert norms.shape == (5, 2)
    np.testing.assert_allclose(norms[:, 1], bias, rtol=1e-5)
    np.testing.assert_allclose(norms[:, 0], bias * np.linalg.norm(x, axis=1), rtol=1e-5)


def test_per_sample_norms_in_training_mode_see_dropout():
    model = model_with_bias()
    x, y = np.ones((20, 3)), np.zeros((20, 2))
    norms = per_sample_gradient_norms(model, keras.losses.MeanSquaredError(), x, y, training=True)
    assert len(np.unique(norms[:, 0])) > 1


def test_no_rows_give_no_norms():
    loss = keras.losses.MeanSquaredError()
    norms = per_sample_gradient_norms(model_with_bias(), loss, np.zeros((0, 3)), np.zeros((0, 2)))
    assert norms.shape == (0, 2)


def test_inputs_may_be_nested():
    one, two = keras.Input((2,)), keras.Input((3,))
    model = keras.Model([one, two], keras.layers.Dense(1)(keras.layers.Concatenate()([one, two])))
    x = [np.ones((4, 2)), np.ones((4, 3))]
    norms = per_sample_gradient_norms(
        model, keras.losses.MeanAbsoluteError(), x, np.full((4, 1), 1e3)
    )
    np.testing.assert_allclose(norms, [[5**0.5, 1.0]] * 4, rtol=1e-6)
