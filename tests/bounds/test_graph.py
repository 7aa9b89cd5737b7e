"""The graph that the engine reads: shared, nested, frozen, and what is refused."""

import math

import keras
import numpy as np
import pytest

from lipdp.bounds import gradient_bounds, lipschitz_constant, numerical_error
from lipdp.bounds.graph import graph_of
from lipdp.errors import InvalidState, UnboundedGradient, UnsupportedLayer
from lipdp.layers import BoundedBias, BoundedInput, MaxMin, SpectralDense, SphereNormalization
from lipdp.losses import MulticlassHinge

LOSS = MulticlassHinge(margin=1.0)
ROOT = math.sqrt(2)  # the constant of the loss


def ball(size=6, radius=1.0):
    inputs = keras.Input((size,))
    return inputs, BoundedInput((size,), radius=radius)(inputs)


def bounds(model):
    return gradient_bounds(model, LOSS).parameters


def about(*exact):
    return pytest.approx(list(exact), rel=1e-4)


class TestSharing:
    def test_a_layer_that_is_used_twice_in_a_row(self):
        shared = SpectralDense(6)
        inputs, x = ball()
        assert bounds(keras.Model(inputs, shared(shared(x)))) == about(2 * ROOT)

    def test_a_layer_that_is_used_in_both_branches(self):
        shared = SpectralDense(6)
        inputs, x = ball()
        joined = keras.layers.Add()([shared(x), MaxMin()(shared(x))])
        model = keras.Model(inputs, SpectralDense(2)(joined))
        assert bounds(model) == about(2 * ROOT, 2 * ROOT)

    def test_a_layer_that_is_called_on_two_shapes(self):
        shared = BoundedBias(0.5)
        inputs, x = ball()
        rows = shared(keras.layers.Reshape((2, 3))(x))
        more = shared(keras.layers.Reshape((2, 1, 3))(x))
        joined = keras.layers.Concatenate()([keras.layers.Flatten()(t) for t in (rows, more)])
        model = keras.Model(inputs, SpectralDense(2)(joined))
        with pytest.raises(UnsupportedLayer, match="another shape"):
            bounds(model)


class TestNesting:
    def inner(self):
        return keras.Sequential([keras.Input((6,)), SpectralDense(6), MaxMin()])

    def test_nested_models_are_inlined(self):
        nested = keras.Sequential([BoundedInput((6,), radius=1.0), self.inner(), SpectralDense(3)])
        flat = keras.Sequential(
            [BoundedInput((6,), radius=1.0), SpectralDense(6), MaxMin(), SpectralDense(3)]
        )
        assert bounds(nested) == pytest.approx(bounds(flat), rel=1e-12)

    def test_models_in_models_in_models(self):
        inputs, x = ball()
        block = keras.Sequential([self.inner(), self.inner()])
        model = keras.Model(inputs, SpectralDense(2)(keras.layers.Add()([x, block(x)])))
        assert bounds(model) == about(ROOT, ROOT, 2 * ROOT)
        assert len(graph_of(model).calls) == 7

    def test_a_shared_nested_model_sums_over_its_uses(self):
        inner = self.inner()
        inputs, x = ball()
        assert bounds(keras.Model(inputs, inner(inner(x)))) == about(2 * ROOT)

    def test_a_nested_model_of_two_inputs(self):
        one, two = keras.Input((6,)), keras.Input((6,))
        inner = keras.Model([one, two], keras.layers.Concatenate()([MaxMin()(one), two]))
        inputs, x = ball()
        model = keras.Model(inputs, SpectralDense(2)(inner([x, SpectralDense(6)(x)])))
        assert bounds(model) == about(ROOT, ROOT * ROOT)

    def test_a_nested_model_that_hands_its_input_on(self):
        passing = keras.Input((6,))
        inputs, x = ball()
        model = keras.Model(inputs, keras.Model(passing, passing)(SpectralDense(6)(x)))
        assert bounds(model) == about(ROOT)

    @pytest.mark.parametrize("dtype", ["int32", "float16", "bfloat16", "float64"])
    def test_a_nested_model_that_casts_its_input(self, dtype):
        """Only the dtype of the whole model's input is what certificates are about."""
        taken = keras.Input((6,), dtype=dtype)
        inputs, x = ball()
        model = keras.Model(inputs, keras.Model(taken, SpectralDense(2)(taken), name="inner")(x))
        for proved in (bounds, lipschitz_constant, numerical_error):
            with pytest.raises(UnsupportedLayer, match="'inner' casts"):
                proved(model)

    def test_a_nested_model_that_casts_the_records(self):
        """Keras begins a float64 network with a float32 input, unless it is told otherwise."""
        layers = [BoundedInput((6,), 1.0, dtype="float64"), SpectralDense(2, dtype="float64")]
        inputs = keras.Input((6,), dtype="float64")
        with pytest.raises(UnsupportedLayer, match="casts"):
            numerical_error(keras.Model(inputs, keras.Sequential(layers)(inputs)))
        told = keras.Sequential([keras.Input((6,), dtype="float64"), *layers])
        assert numerical_error(keras.Model(inputs, told(inputs))) < 1e-13

    def test_the_output_is_not_the_last_call(self):
        one, two = keras.Input((2,)), keras.Input((2,))
        first_of_two = keras.Model([one, two], one)
        inputs, x = ball()
        large = keras.layers.Rescaling(100.0)(SpectralDense(2)(x))
        small = keras.layers.Rescaling(0.001)(SpectralDense(2)(SpectralDense(6)(x)))
        model = keras.Model(inputs, first_of_two([large, small]))
        assert graph_of(model).calls[-1].output != graph_of(model).output
        assert gradient_bounds(model, LOSS).logit_bound == pytest.approx(100.0, rel=1e-4)


class TestFrozen:
    def model(self):
        model = keras.Sequential(
            [BoundedInput((6,), radius=1.0), SpectralDense(6), SpectralDense(3)]
        )
        model.layers[1].kernel.assign(np.diag(np.full(6, 0.5, dtype="float32")))
        return model

    def test_a_frozen_layer_has_no_bound_and_its_present_norm(self):
        model = self.model()
        model.layers[1].trainable = False
        assert bounds(model) == about(0.5 * ROOT)

    def test_a_frozen_variable(self):
        model = self.model()
        model.layers[1].kernel.trainable = False
        assert bounds(model) == about(0.5 * ROOT)

    def plain(self, *between):
        dense = keras.layers.Dense(6, kernel_initializer="identity")
        model = keras.Sequential([BoundedInput((6,), 1.0), dense, *between, SpectralDense(3)])
        return model, dense

    def test_a_plain_layer_with_a_frozen_kernel_and_a_free_bias(self):
        model, dense = self.plain(SphereNormalization(2.0, 1.0))
        dense.kernel.trainable = False
        assert bounds(model) == about(2 * ROOT, 2 * ROOT)

    def test_a_plain_layer_with_a_free_kernel_and_a_frozen_bias(self):
        model, dense = self.plain()
        dense.bias.trainable = False
        with pytest.raises(UnboundedGradient):
            bounds(model)
        dense.kernel.trainable = False
        assert bounds(model) == about(ROOT)

    def test_a_frozen_nested_model(self):
        inner = keras.Sequential([keras.Input((6,)), SpectralDense(6), SpectralDense(6)])
        inner.trainable = False
        model = keras.Sequential([BoundedInput((6,), radius=1.0), inner, SpectralDense(3)])
        assert bounds(model) == about(ROOT)

    def test_a_wholly_frozen_model_has_nothing_to_bound(self):
        model = self.model()
        model.trainable = False
        assert bounds(model) == []
        # Of a kernel's norm, rounding takes a little off.
        assert lipschitz_constant(model) == pytest.approx(0.5, rel=2e-5)


def test_table_has_a_row_for_each_variable():
    model = keras.Sequential(
        [
            BoundedInput((6,), radius=1.0),
            *(layer for size in (4, 3) for layer in (SpectralDense(size), BoundedBias(1.0))),
        ]
    )
    frame = gradient_bounds(model, LOSS).to_frame()
    assert list(frame.columns) == ["layer", "variable", "output_bound", "lipschitz", "bound"]
    assert (frame["variable"] != "").sum() == 4


class TestRefusals:
    def test_a_subclassed_model(self):
        class Custom(keras.Model):
            def call(self, inputs):
                return inputs

        with pytest.raises(UnsupportedLayer, match="subclassed"):
            bounds(Custom())

    @pytest.mark.parametrize("method", ["call", "__call__"])
    @pytest.mark.parametrize("nested", [False, True])
    def test_a_model_that_overrides_its_call(self, method, nested):
        def louder(self, *args, **kwargs):
            return 100.0 * getattr(super(Louder, self), method)(*args, **kwargs)

        Louder = type("Louder", (keras.Sequential,), {method: louder})
        model = Louder([BoundedInput((6,), radius=1.0), SpectralDense(3)], name="louder")
        if nested:
            model = keras.Sequential([keras.Input((6,)), model, keras.layers.ReLU()])
        with pytest.raises((UnsupportedLayer, TypeError), match=r"louder|Louder"):
            bounds(model)

    def test_a_functional_model_that_overrides_its_call(self):
        class Louder(keras.Model):
            def call(self, inputs):
                return 100.0 * inputs

        inputs, x = ball()
        with pytest.raises(UnsupportedLayer):
            bounds(Louder(inputs=inputs, outputs=SpectralDense(3)(x)))

    def test_several_outputs(self):
        inputs, x = ball()
        one = SpectralDense(3)(x)
        for outputs in ([one, x], {"logits": one}):
            with pytest.raises(UnsupportedLayer, match="several outputs"):
                bounds(keras.Model(inputs, outputs))
        assert bounds(keras.Model(inputs, [one])) == bounds(keras.Model(inputs, one))

    def test_an_output_that_is_an_input(self):
        inputs = keras.Input((6,))
        with pytest.raises(UnsupportedLayer, match="is its input"):
            bounds(keras.Model(inputs, inputs))

    def test_a_model_without_shape(self):
        with pytest.raises(InvalidState, match="no input shape"):
            bounds(keras.Sequential([SpectralDense(3)]))

    def test_an_axis_of_unknown_size(self):
        model = keras.Sequential([keras.Input((None, 6)), keras.layers.ReLU()])
        with pytest.raises(UnsupportedLayer, match="unknown size"):
            bounds(model)

    def test_a_layer_that_is_called_in_training_mode_for_good(self):
        inputs, x = ball()
        dropped = keras.layers.Dropout(0.5)(x, training=True)
        with pytest.raises(UnsupportedLayer, match="called with more"):
            bounds(keras.Model(inputs, SpectralDense(3)(dropped)))

    def test_a_nested_model_that_is_called_on_names(self):
        """Keras looks them up, and does not take them in the order in which it stores them."""
        z, a = keras.Input((6,), name="z"), keras.Input((6,), name="a")
        inner = keras.Model([z, a], keras.layers.Rescaling(100.0)(z))
        inputs, x = ball()
        model = keras.Model(inputs, inner({"z": keras.layers.Rescaling(10.0)(x), "a": x}))
        with pytest.raises(UnsupportedLayer, match="is called on a dict"):
            lipschitz_constant(model)

    def test_images_as_logits(self):
        model = keras.Sequential([BoundedInput((2, 3), radius=1.0), SpectralDense(3)])
        with pytest.raises(UnsupportedLayer, match="shape that the loss takes"):
            bounds(model)
