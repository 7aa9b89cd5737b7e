"""Activation functions and layers, as plain Keras layers."""

import functools
import importlib.util
import math
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.bounds.rules.activations import _CURVES, _REFUSALS, RULES, activation_bounds
from lipdp.bounds.rules.base import Shapes
from lipdp.errors import UnsupportedLayer
from lipdp.projections import L2Ball, MaxBall

L = keras.layers
SCRIPT = Path(__file__).with_name("activation_backend_checks.py")
UNIT = 2.0**-53


def rule_of(layer, sample):
    return RULES[type(layer)](layer, Shapes((sample,), sample))


def loaded_checks():
    spec = importlib.util.spec_from_file_location("activation_backend_checks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_activation_at_every_size():
    loaded_checks().main()


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(run_on_backend, backend):
    run_on_backend(backend, SCRIPT, "main")


def test_all_activations_of_keras_are_known():
    public = {getattr(keras.activations, name) for name in dir(keras.activations) if name[0] != "_"}
    functions = {f for f in public if callable(f)}
    functions -= {keras.activations.get, keras.activations.serialize, keras.activations.deserialize}
    softmaxes = {keras.activations.softmax, keras.activations.log_softmax}
    assert functions == set(_CURVES) | set(_REFUSALS) | softmaxes


@pytest.mark.parametrize("function", [*_REFUSALS, lambda x: x, abs])
def test_functions_without_a_proof_are_refused(function):
    layer = L.Activation(function, name="odd")
    with pytest.raises(UnsupportedLayer, match="'odd'"):
        rule_of(layer, (4,))


def test_only_the_tanh_form_of_gelu_comes_as_a_partial():
    shapes, layer = Shapes(((4,),), (4,)), L.Activation("linear")
    form = functools.partial(keras.activations.gelu, approximate=True)
    assert activation_bounds(form, shapes, layer).backward_bound(9.0, 1.0) == 1.128994
    for other in (
        functools.partial(keras.activations.leaky_relu, negative_slope=9.0),
        functools.partial(keras.activations.gelu, approximate=3),
    ):
        with pytest.raises(UnsupportedLayer):
            activation_bounds(other, shapes, layer)


samples = hnp.arrays(
    np.float64,
    (2, 3),
    elements=st.one_of(st.sampled_from([-3.0, -1.0, 0.0, 1.0, 3.0, 6.0]), st.floats(-8, 8)),
)
LAYERS = {
    "relu": lambda: L.ReLU(dtype="float64"),
    "relu max": lambda: L.ReLU(max_value=1.0, dtype="float64"),
    "relu max 6": lambda: L.ReLU(max_value=6, dtype="float64"),
    "relu leaky": lambda: L.ReLU(negative_slope=1.7, dtype="float64"),
    "relu leaky max": lambda: L.ReLU(max_value=1.0, negative_slope=1.7, dtype="float64"),
    "leaky": lambda: L.LeakyReLU(0.3, dtype="float64"),
    "steep": lambda: L.LeakyReLU(2.1, dtype="float64"),
    "elu": lambda: L.ELU(1.9, dtype="float64"),
    "prelu": lambda: L.PReLU("ones", alpha_constraint=MaxBall(1.5), dtype="float64"),
    "softmax": lambda: L.Softmax(dtype="float64"),
    "log softmax": lambda: L.Activation("log_softmax", dtype="float64"),
    "gelu": lambda: L.Activation("gelu", dtype="float64"),
    "sigmoid": lambda: L.Activation("sigmoid", dtype="float64"),
}


@pytest.mark.parametrize("name", LAYERS)
@given(x=samples)
@example(x=np.zeros((2, 3)))
@example(x=np.ones((2, 3)))
def test_layers_keep_their_bounds(name, x, jacobian):
    layer = LAYERS[name]()
    norm = float(np.linalg.norm(x))
    y = np.asarray(layer(x[None]))[0]
    rule, slack = rule_of(layer, (2, 3)), 1.0 + 64 * UNIT
    assert np.linalg.norm(y) <= rule.forward_bound(norm) * (slack + rule.rounding(UNIT))
    matrix = jacobian(layer, x)
    limit = rule.backward_bound(norm, 1.0) * (slack + rule.rounding(UNIT))
    assert np.linalg.norm(matrix, 2) <= limit


def test_softmax_bounds_are_attained(jacobian):
    layer = L.Softmax(dtype="float64")
    assert np.linalg.norm(jacobian(layer, np.zeros(2)), 2) == pytest.approx(0.5)
    assert rule_of(layer, (7, 2)).forward_bound(1e9) == math.sqrt(7)
    sure = np.array([[50.0, 0.0], [50.0, 0.0]])
    assert np.linalg.norm(np.asarray(layer(sure[None]))) == pytest.approx(math.sqrt(2))
    log = L.Activation("log_softmax", dtype="float64")
    assert np.linalg.norm(jacobian(log, np.array([50.0, 0, 0])), 2) == pytest.approx(math.sqrt(3))
    assert rule_of(log, (3,)).backward_bound(1.0, 1.0) == math.sqrt(3)


@pytest.mark.parametrize("axis", [0, 1, (1, 2), [-2]])
def test_softmax_over_another_axis_is_refused(axis):
    with pytest.raises(UnsupportedLayer, match="last axis"):
        rule_of(L.Softmax(axis=axis), (3, 2))


@pytest.mark.parametrize("axis", [-1, 2, [2]])
def test_softmax_over_the_last_axis(axis):
    assert rule_of(L.Softmax(axis=axis), (3, 2)).backward_bound(1.0, 1.0) == 0.5


def test_a_threshold_is_refused():
    with pytest.raises(UnsupportedLayer, match="jumps"):
        rule_of(L.ReLU(threshold=0.1), (2,))


def test_the_bounds_of_relu_with_a_greatest_value():
    rule = rule_of(L.ReLU(max_value=2.0), (4,))
    assert (rule.forward_bound(9.0), rule.forward_bound(1.0)) == (4.0, 1.0)
    assert rule.backward_bound(math.inf, 1.0) == 1.0
    both = rule_of(L.ReLU(max_value=2.0, negative_slope=0.5), (4,))
    assert both.backward_bound(math.inf, 1.0) == math.inf


class TestLearnedSlopes:
    def rule(self, **arguments):
        layer = L.PReLU(dtype="float64", **arguments)
        layer.build((None, 5, 3))
        return layer, rule_of(layer, (5, 3))

    def test_a_set_of_slopes_bounds_the_jacobian(self):
        _, rule = self.rule(alpha_constraint=MaxBall(1.5), shared_axes=[1])
        assert (rule.backward_bound(1.0, 2.0), rule.forward_bound(2.0)) == (3.0, 3.0)
        assert rule.lipschitz(1.0) == 1.0
        assert self.rule(alpha_constraint=L2Ball(4.0))[1].backward_bound(1.0, 1.0) == 4.0

    def test_free_slopes_have_no_jacobian_but_a_gradient(self):
        _, rule = self.rule()
        assert rule.backward_bound(1.0, 1.0) == math.inf
        assert rule.parameter_bounds(2.0, 3.0) == [6.0]
        assert rule.parameter_bounds(math.inf, 3.0) == [math.inf]

    def test_frozen_slopes_count_as_they_are(self):
        layer, _ = self.rule(alpha_initializer=keras.initializers.Constant(-2.5))
        layer.trainable = False
        rule = rule_of(layer, (5, 3))
        assert rule.backward_bound(1.0, 1.0) == rule.lipschitz(1.0) == 2.5
        assert rule.parameter_bounds(1.0, 1.0) == []
        layer.alpha.assign(np.full((5, 3), np.nan))
        assert rule_of(layer, (5, 3)).lipschitz(1.0) == math.inf

    @pytest.mark.parametrize("called", [(1, 3), (5, 1), (1, 1), (3,), (1, 5, 3)])
    def test_slopes_that_would_enlarge_the_sample_are_refused(self, called):
        layer, _ = self.rule()
        with pytest.raises(UnsupportedLayer, match="another shape"):
            rule_of(layer, called)

    def test_slopes_that_are_shared_do_for_any_size_of_the_axis(self):
        layer, _ = self.rule(shared_axes=[1])
        assert layer(np.ones((2, 1, 3))).shape == (2, 1, 3)
        assert rule_of(layer, (1, 3)).parameter_bounds(2.0, 3.0) == [6.0]

    @pytest.mark.parametrize("shared", [None, [1]])
    def test_gradients_of_shared_slopes_attain_their_bound(self, shared):
        layer, rule = self.rule(alpha_constraint=MaxBall(1.5), shared_axes=shared)
        x = np.zeros((1, 5, 3))
        x[0, :, 1] = -2.0
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(layer(x) * x)
        gradient = np.linalg.norm(tape.gradient(value, layer.alpha.value))
        bound = rule.parameter_bounds(np.linalg.norm(x), np.linalg.norm(x))[0]
        assert gradient <= bound
        assert shared is None or gradient == pytest.approx(bound)
