"""What has no proved bound is refused, by name and with the way out."""

from __future__ import annotations

import re

import keras
import pytest
from keras import ops

import lipdp
from lipdp.bounds import gradient_bounds
from lipdp.bounds.final import hidden_methods
from lipdp.bounds.rules import lookup, structure
from lipdp.bounds.rules.refusals import is_refused, way_out
from lipdp.errors import UnboundedGradient, UnsafeSetting, UnsupportedLayer
from lipdp.layers import BoundedInput, SpectralDense, SphereNormalization
from lipdp.layers.base import LipschitzLayer
from lipdp.layers.dense import BoundedDense
from lipdp.layers.linear import LinearLayer
from lipdp.layers.pooling import WindowPooling
from lipdp.losses import ClassWeighted, MulticlassHinge
from lipdp.losses.hinge import SignLoss
from lipdp.numerics import gamma
from lipdp.projections import L2Ball, SpectralProjection
from lipdp.projections.balls import RadiusBall

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


class OwnMap(LinearLayer):
    """Another map than the abstract class states bounds of."""

    def build(self, input_shape):
        self.constraint = SpectralProjection(1.0)
        self.kernel = self.add_weight(shape=(6, 6), constraint=self.constraint, name="kernel")

    @property
    def weight(self):
        return self.kernel

    def call(self, inputs):
        return 100.0 * inputs @ self.kernel


class Started:
    """What the abstract dense layer leaves open."""

    def __init__(self, units, **kwargs):
        super().__init__(units, SpectralProjection(1.0), **kwargs)

    def _initializer(self):
        return keras.initializers.Orthogonal()

    def helper(self):
        return None


class OwnCall(Started, BoundedDense):
    def call(self, inputs):
        return 100.0 * super().call(inputs)


class OwnBuild(Started, BoundedDense):
    def build(self, input_shape):
        super().build(input_shape)
        self._positions = 0


class OwnDunder(Started, BoundedDense):
    def __call__(self, inputs, **kwargs):
        return super().__call__(inputs, **kwargs)


class OwnShape(Started, BoundedDense):
    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)


class OwnWindows(WindowPooling):
    rank = 1

    def call(self, inputs):
        return 100.0 * self._means(inputs)

    def forward_bound(self, x):
        return x

    def backward_bound(self, x, g):
        return g


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (lambda: OwnMap(name="own"), "'own' overrides build, call .*LinearLayer"),
        (lambda: OwnCall(6, name="own"), "'own' overrides call .*BoundedDense"),
        (lambda: OwnBuild(6, name="own"), "'own' overrides build .*BoundedDense"),
        (lambda: OwnDunder(6, name="own"), "'own' overrides __call__ .*BoundedDense"),
        (lambda: OwnShape(6, name="own"), "'own' overrides .*compute_output_shape"),
    ],
)
def test_an_abstract_layer_whose_subclass_computes_something_else(layer, words):
    model = net(layer())
    with pytest.raises(UnsupportedLayer, match=words):
        gradient_bounds(model, LOSS)


def test_a_pooling_that_computes_something_else():
    pool = [keras.layers.Reshape((6, 1)), OwnWindows(2, name="own"), keras.layers.Flatten()]
    with pytest.raises(UnsupportedLayer, match=r"'own' overrides call .*WindowPooling"):
        gradient_bounds(net(*pool), LOSS)


def test_what_fills_an_abstract_class_in_or_states_everything_is_taken():
    class Filled(Started, BoundedDense):
        pass

    class Stated(Started, BoundedDense):
        def call(self, inputs):
            return 100.0 * super().call(inputs)

        def forward_bound(self, x):
            return 100.0 * x

        def backward_bound(self, x, g):
            return 100.0 * g

        def parameter_bounds(self, x, g):
            return [100.0 * x * g]

        def lipschitz(self, x):
            return 100.0

        def rounding(self, unit):
            return gamma(64, unit)

    plain, filled, stated = (
        gradient_bounds(net(layer), LOSS).parameters
        for layer in (SpectralDense(6), Filled(6), Stated(6))
    )
    assert filled == pytest.approx(plain, rel=1e-4)
    assert stated == pytest.approx([100.0 * bound for bound in plain], rel=1e-4)


def test_an_abstract_ball_whose_subclass_does_not_project():
    class Idle(RadiusBall):
        _growth = _certificate = lambda self, w: 0.0

        def _norm(self, v):
            return 1.0

        def bound_of(self, w):
            return 0.0

        def __call__(self, w):
            return w

    dense = keras.layers.Dense(6, use_bias=False, kernel_constraint=Idle(1.0))
    with pytest.raises(UnsupportedLayer, match=r"'Idle' overrides __call__ .*RadiusBall"):
        gradient_bounds(net(dense), LOSS)


def test_an_abstract_loss_whose_subclass_computes_something_else():
    class Louder(SignLoss):
        task = "multiclass"

        def term(self, product):
            return -product, -ops.ones_like(product)

        def steepest(self):
            return 1.0

        def call(self, y_true, y_pred):
            return 100.0 * super().call(y_true, y_pred)

    with pytest.raises(UnsupportedLayer, match=r"'own' overrides call .*SignLoss"):
        gradient_bounds(net(), Louder(name="own"))


class TestHiddenMethods:
    """An attribute of an instance stands in front of what its class says."""

    @pytest.mark.parametrize("name", ["call", "__call__", "backward_bound", "build", "helper"])
    def test_of_a_layer(self, name):
        layer = SpectralDense(6, name="odd")
        model = net(layer)
        setattr(layer, name, lambda *args, **kwargs: None)
        if name == "helper":  # no method of the class
            assert len(gradient_bounds(model, LOSS).parameters) == 2
            return
        with pytest.raises(UnsupportedLayer, match=f"'odd' has attributes that hide.*{name}"):
            gradient_bounds(model, LOSS)

    @pytest.mark.parametrize(
        "layer", [keras.layers.Dropout(0.1), keras.layers.Dense(6, use_bias=False)]
    )
    def test_of_a_plain_layer(self, layer):
        model = net(layer)
        layer.call = lambda inputs, **kwargs: 100.0 * inputs
        with pytest.raises(UnsupportedLayer, match=r"hide methods.*call"):
            gradient_bounds(model, LOSS)

    def test_of_a_merging_layer(self):
        inputs, add = BoundedInput((6,), 1.0)(keras.Input((6,))), keras.layers.Add()
        model = keras.Model(inputs._keras_history.operation.input, add([inputs, inputs]))
        add._merge_function = lambda inputs: 100.0 * inputs[0]
        with pytest.raises(UnsupportedLayer, match=r"hide methods.*_merge_function"):
            gradient_bounds(model, LOSS)

    def test_of_a_constraint(self):
        class Free(keras.constraints.Constraint):
            def __call__(self, w):
                return w

        for constraint in (SpectralProjection(1.0), Free()):
            dense = keras.layers.Dense(6, use_bias=False, kernel_constraint=constraint)
            vars(constraint)["__call__"] = lambda w: w
            with pytest.raises((UnsupportedLayer, UnboundedGradient)):
                gradient_bounds(net(dense), LOSS)

    def test_of_a_loss(self):
        loss = ClassWeighted(MulticlassHinge(1.0), [1.0, 1.0, 1.0])
        vars(loss.loss)["call"] = lambda y_true, y_pred: 100.0 * y_pred[:, 0]
        with pytest.raises(UnsupportedLayer, match=r"hide methods.*call"):
            gradient_bounds(net(), loss)

    @pytest.mark.parametrize("nested", [False, True])
    def test_of_a_model(self, nested):
        inner = net()
        model = keras.Sequential([keras.Input((6,)), inner]) if nested else inner
        inner.call = lambda inputs, **kwargs: 100.0 * inputs
        with pytest.raises(UnsupportedLayer, match=r"overrides call.*call"):
            gradient_bounds(model, LOSS)

    def test_constants_of_a_layer_of_this_package(self):
        clip = SphereNormalization(1.0, 0.5, name="odd")
        model = net(clip)
        clip.linear_backward = not clip.linear_backward
        with pytest.raises(UnsupportedLayer, match=r"'odd' has attributes that hide constants"):
            gradient_bounds(model, LOSS)

    def test_a_swapped_class_is_read_as_what_it_is(self):
        class Louder(SpectralDense):
            def call(self, inputs):
                return 100.0 * super().call(inputs)

        model = net()
        model.layers[-1].__class__ = Louder
        with pytest.raises(UnsupportedLayer, match="SpectralDense, which is final"):
            gradient_bounds(model, LOSS)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_nested_model_on_a_dict_is_refused(names):
    """Keras pairs by name and lists by an order of its own."""
    given = {
        name: keras.Input((size,), name=name) for name, size in zip(names, (4, 3), strict=True)
    }
    balls = [
        BoundedInput(t.shape[1:], r)(t) for t, r in zip(given.values(), (1.0, 5.0), strict=True)
    ]
    joined = keras.layers.Concatenate()(balls)
    outer = {name: keras.Input(t.shape[1:]) for name, t in given.items()}
    for made in (given, list(given.values())):
        inner = keras.Model(made, joined, name="inner")
        model = keras.Model(outer, SpectralDense(2)(inner(outer)))
        with pytest.raises(UnsupportedLayer, match="'inner' is called on a dict of tensors"):
            gradient_bounds(model, LOSS)
    listed = keras.Model(list(given.values()), joined)(list(outer.values()))
    assert len(gradient_bounds(keras.Model(outer, SpectralDense(2)(listed)), LOSS).parameters) == 1


def classes_of_layers():
    """What users make layers of; RNN cells are layers of those."""
    classes = {c for c in vars(keras.layers).values() if isinstance(c, type)}
    return sorted(classes - {keras.layers.InputSpec}, key=lambda kind: kind.__name__)


def named_parts(text):
    """Things of this package and of Keras that a text names."""
    return re.findall(r"(?:lipdp|keras)(?:\.\w+)+", text)


class TestWaysOut:
    @pytest.mark.parametrize("kind", classes_of_layers(), ids=lambda kind: kind.__name__)
    def test_every_layer_of_keras_has_a_rule_or_a_way_out_of_its_own(self, kind):
        with_rules = {*lookup._RULES, *structure.MERGE_RULES, keras.layers.InputLayer}
        layer = kind.__new__(kind)
        assert is_refused(layer) == (kind not in with_rules)
        if kind in with_rules:
            return
        object.__setattr__(layer, "_trainable", True)
        text = way_out(layer)
        assert "subclass" not in text or kind.__name__ in CODE
        assert len(text) > 20
        for name in named_parts(text):
            package, *path = name.split(".")
            thing = {"lipdp": lipdp, "keras": keras}[package]
            for part in path:
                thing = getattr(thing, part)

    @pytest.mark.parametrize(
        ("layer", "words"),
        [
            (keras.layers.GroupNormalization(2), "SphereNormalization"),
            (keras.layers.UnitNormalization(), "SphereNormalization"),
            (keras.layers.RMSNormalization(), "SphereNormalization"),
            (keras.layers.Normalization(mean=0.0, variance=1.0), "Rescaling.*PrivateStandardiz"),
            (keras.layers.SpectralNormalization(keras.layers.Dense(6)), "SpectralDense"),
            (keras.layers.Dense(6, activation="relu"), None),
        ],
    )
    def test_on_vectors(self, layer, words):
        model = net(layer)
        if words is not None:
            with pytest.raises(UnsupportedLayer, match=f"{layer.name}.*{words}"):
                gradient_bounds(model, LOSS)

    @pytest.mark.parametrize(
        ("layer", "words"),
        [
            (keras.layers.TimeDistributed(SpectralDense(3)), "Call the layer inside it directly"),
            (keras.layers.LSTM(3), "SpectralConv1D"),
            (keras.layers.Bidirectional(keras.layers.GRU(3)), "SpectralConv1D"),
            (keras.layers.LSTM(3, return_state=True), "SpectralConv1D"),
        ],
    )
    def test_on_sequences(self, layer, words):
        inputs = keras.Input((4, 3))
        made = keras.tree.flatten(layer(BoundedInput((4, 3), 1.0)(inputs)))
        model = keras.Model(inputs, SpectralDense(3)(keras.layers.Flatten()(made[0])))
        with pytest.raises(UnsupportedLayer, match=words):
            gradient_bounds(model, LOSS)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda x: keras.layers.MultiHeadAttention(2, 4)(x, x), "mixer"),
            (lambda x: keras.layers.Attention()([x, x]), "mixer"),
            (lambda x: keras.layers.Dot(2)([x, x]), "Concatenate"),
            (lambda x: keras.layers.Maximum()([x, x]), "MaxMin"),
        ],
    )
    def test_on_several_tensors(self, make, words):
        inputs = keras.Input((4, 3))
        made = make(BoundedInput((4, 3), 1.0)(inputs))
        model = keras.Model(inputs, SpectralDense(3)(keras.layers.Flatten()(made)))
        with pytest.raises(UnsupportedLayer, match=words):
            gradient_bounds(model, LOSS)

    def test_batch_normalization_of_a_frozen_backbone(self):
        backbone = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(6), keras.layers.BatchNormalization()]
        )
        with pytest.raises(UnsupportedLayer, match=r"remove it.*FrozenFeatures"):
            gradient_bounds(net(backbone), LOSS)
        backbone.trainable = False
        with pytest.raises(UnsupportedLayer) as refused:
            gradient_bounds(net(backbone), LOSS)
        assert "FrozenFeatures(backbone)" in refused.value.fix
        assert "remove it" not in refused.value.fix

    def test_a_layer_of_the_user_with_the_name_of_one_of_keras(self):
        class LSTM(keras.layers.Layer):
            pass

        assert "subclass" in way_out(LSTM())

    @pytest.mark.parametrize("functional", [True, False])
    def test_a_model_that_regularises_its_output(self, functional):
        inputs = keras.Input((6,))
        dense = SpectralDense(6)
        inner = keras.Model(inputs, dense(inputs)) if functional else keras.Sequential([dense])
        inner.activity_regularizer = keras.regularizers.L2(0.1)
        with pytest.raises(UnsupportedLayer, match=f"regulariser of '{inner.name}'"):
            gradient_bounds(net(inner), LOSS)
        whole = net()
        whole.activity_regularizer = keras.regularizers.L2(0.1)
        with pytest.raises(UnsupportedLayer, match=f"regulariser of '{whole.name}'"):
            gradient_bounds(whole, LOSS)


#: Whose code nobody knows.
CODE = {"FlaxLayer", "JaxLayer", "Lambda", "Layer", "Pipeline", "TFSMLayer", "TorchModuleWrapper"}
CODE |= {"Wrapper"}


def test_the_first_functional_model_of_a_class_hides_nothing():
    """Keras wraps its build() before it changes the bases of the class."""

    class Fresh(keras.Model):
        pass

    inputs = keras.Input((6,))
    model = Fresh(inputs, SpectralDense(3)(BoundedInput((6,), 1.0)(inputs)))
    assert "build" in vars(model)
    assert "build" not in hidden_methods(model)
    model.build = lambda shape: None
    assert "build" in hidden_methods(model)
