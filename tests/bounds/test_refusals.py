"""What has no proved bound is refused, by name and with the way out."""

from __future__ import annotations

import keras
import pytest

from lipdp.bounds import gradient_bounds
from lipdp.errors import UnboundedGradient, UnsafeSetting, UnsupportedLayer
from lipdp.layers import BoundedInput, SpectralDense, SphereNormalization
from lipdp.layers.base import LipschitzLayer
from lipdp.losses import ClassWeighted, MulticlassHinge
from lipdp.projections import L2Ball, SpectralProjection

LOSS = MulticlassHinge(margin=1.0)


def net(*inside: keras.layers.Layer) -> keras.Sequential:
    """Layers between a bounded input and a dense layer of three classes."""
    return keras.Sequential([BoundedInput((6,), radius=1.0), *inside, SpectralDense(3)])


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (keras.layers.BatchNormalization(name="bn"), "bn.*mixes the samples"),
        (keras.layers.Dense(6, activation="exponential", name="odd"), "odd"),
        (keras.layers.ReLU(threshold=0.5, name="jump"), "jump"),
        (keras.layers.Dense(6, activity_regularizer="l2", name="reg"), "reg"),
        (keras.layers.Lambda(lambda t: t * 100.0, name="lambda"), "lambda"),
    ],
)
def test_unknown_layers_are_refused_by_name(layer, words):
    model = net(layer)
    with pytest.raises(UnsupportedLayer, match=words):
        gradient_bounds(model, LOSS)


def test_squared_error_is_refused_with_a_replacement():
    with pytest.raises(UnsupportedLayer, match="MeanAbsoluteError"):
        gradient_bounds(net(), keras.losses.MeanSquaredError())


def test_an_unbounded_input_is_refused():
    model = keras.Sequential([keras.Input((6,)), SpectralDense(3)])
    with pytest.raises(UnboundedGradient, match="BoundedInput"):
        gradient_bounds(model, LOSS)


def test_cotangents_that_overflow_are_refused():
    spheres = [SphereNormalization(1.0, 1e-15) for _ in range(3)]
    model = keras.Sequential(
        [BoundedInput((4,), 1.0), SpectralDense(4), *spheres, SpectralDense(2)]
    )
    with pytest.raises(UnboundedGradient):
        gradient_bounds(model, LOSS)


@pytest.mark.parametrize(
    "layer",
    [keras.layers.Activation("tanh"), keras.layers.Dense(6, activation="tanh", use_bias=False)],
)
def test_a_bounded_activation_does_not_bound_nan(layer):
    model = keras.Sequential([keras.Input((6,)), layer, SpectralDense(3)])
    with pytest.raises(UnboundedGradient):
        gradient_bounds(model, LOSS)


def test_a_subclass_of_a_concrete_layer_is_refused():
    class Louder(SpectralDense):
        def call(self, inputs):
            return 100.0 * super().call(inputs)

    model = keras.Sequential([BoundedInput((6,), radius=1.0), Louder(3)])
    with pytest.raises(UnsupportedLayer, match="SpectralDense"):
        gradient_bounds(model, LOSS)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_subclass_of_a_concrete_loss_is_refused(wrapped):
    class Louder(MulticlassHinge):
        def call(self, y_true, y_pred):
            return 100.0 * super().call(y_true, y_pred)

    loss = Louder(margin=1.0, name="louder")
    loss = ClassWeighted(loss, [1.0, 1.0, 1.0]) if wrapped else loss
    with pytest.raises(UnsupportedLayer, match=r"louder.*MulticlassHinge"):
        gradient_bounds(net(), loss)


@pytest.mark.parametrize("layer", [keras.layers.Dense, keras.layers.PReLU])
def test_a_subclass_of_a_concrete_projection_is_refused(layer):
    class Idle(L2Ball):
        def __call__(self, w):
            return w

    made = (
        layer(6, use_bias=False, kernel_constraint=Idle(1.0))
        if layer is keras.layers.Dense
        else layer(alpha_constraint=Idle(1.0))
    )
    model = net(made)
    with pytest.raises(UnsupportedLayer, match=r"Idle.*L2Ball"):
        gradient_bounds(model, LOSS)


def test_a_constraint_that_came_too_late_does_not_count():
    """Optimizers apply the constraint that the variable was made with."""
    dense = keras.layers.Dense(6, use_bias=False, kernel_initializer="orthogonal")
    model = net(dense)
    dense.kernel_constraint = SpectralProjection(1.0)
    with pytest.raises(UnboundedGradient):
        gradient_bounds(model, LOSS)
    model = net()
    model.layers[-1].kernel.constraint = L2Ball(0.1)
    with pytest.raises(UnsupportedLayer, match="another constraint"):
        gradient_bounds(model, LOSS)


def test_a_layer_that_states_too_few_bounds():
    class Forgetful(LipschitzLayer):
        def build(self, input_shape):
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, inputs):
            return inputs * self.scale

        def forward_bound(self, x):
            return x

        def backward_bound(self, x, g):
            return g

        def parameter_bounds(self, x, g):
            return []

    model = net(Forgetful(name="odd"))
    with pytest.raises(UnsupportedLayer, match="'odd' does not state"):
        gradient_bounds(model, LOSS)


def test_noise_that_would_vanish_is_refused():
    tiny = [keras.layers.Rescaling(1e-20), keras.layers.Rescaling(1e-20)]
    model = net(*tiny)
    with pytest.raises(UnboundedGradient, match="so small"):
        gradient_bounds(model, LOSS)


def test_half_precision_is_refused():
    model = keras.Sequential(
        [BoundedInput((6,), radius=1.0), keras.layers.Dense(3, dtype="mixed_float16")]
    )
    with pytest.raises(UnsafeSetting, match="float32 or float64"):
        gradient_bounds(model, LOSS)
