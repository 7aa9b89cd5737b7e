"""A loss of classes takes logits: a model that ends in an activation is refused, by name."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp import layers as ls
from lipdp import losses
from lipdp.errors import LipdpError, UnsafeSetting, UnsupportedLayer
from lipdp.losses.base import LipschitzLoss
from lipdp.training.logits import SIGNS, check_logits

KL = keras.layers
BUDGET = lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5, seed=0)
BINARY = losses.TemperedBinaryCrossentropy(4.0)
CLASSES = losses.TemperedCrossentropy(4.0)


def ending(*last, units=1, kind=lipdp.Sequential):
    return kind([ls.BoundedInput((4,), 2.0), ls.SpectralDense(units), *last])


def refuses(model, loss, name):
    with pytest.raises(UnsafeSetting, match=f"takes logits.*{name!r}") as refused:
        check_logits(model, loss)
    assert "without an activation" in refused.value.fix


def activations():
    functions = vars(keras.activations).items()
    # A threshold has arguments of its own.
    others = {"deserialize", "get", "serialize", "threshold"}
    return [f for name, f in functions if callable(f) and name not in others]


class TestSigns:
    @pytest.mark.parametrize("function", activations(), ids=lambda f: f.__name__)
    def test_every_activation_of_keras_is_on_the_side_that_is_stated(self, function):
        """Also where it has another sign than its argument."""
        z = np.concatenate([-np.geomspace(1e-3, 30.0, 200), [0.0], np.geomspace(1e-3, 30.0, 200)])
        rows = np.stack([z, np.roll(z, 7)], axis=1).astype("float32")
        values = np.asarray(function(keras.ops.convert_to_tensor(rows)))
        stated = SIGNS.get(function)
        if values.min() >= 0.0:
            assert stated == 1
        elif values.max() <= 0.0:
            assert stated == -1
        elif stated is None:
            # Its output says nothing about its argument.
            assert function.__name__ == "glu"
        else:
            assert stated == 0
            assert (values[rows > 0] >= 0.0).all()
            assert (values[rows < 0] <= 0.0).all()


class TestRefusals:
    @pytest.mark.parametrize(
        "last",
        [
            lambda: KL.Activation("sigmoid", name="end"),
            lambda: KL.Activation("softplus", name="end"),
            lambda: KL.Activation("relu", name="end"),
            lambda: KL.Activation("log_sigmoid", name="end"),
            lambda: KL.Activation("hard_sigmoid", name="end"),
            lambda: KL.ReLU(name="end"),
            lambda: KL.ReLU(max_value=1.0, name="end"),
            lambda: KL.Softmax(name="end"),
            lambda: ls.AbsoluteValue(name="end"),
            lambda: KL.Dense(3, activation="sigmoid", name="end"),
            lambda: KL.Dense(3, activation="softmax", name="end"),
        ],
    )
    @pytest.mark.parametrize(
        "behind",
        [
            lambda: [],
            lambda: [KL.Dropout(0.1), KL.Flatten(), ls.CotangentClip(1.0), KL.Rescaling(2.0)],
            lambda: [KL.Activation("tanh"), KL.Activation("linear"), ls.ActivationClip(1.0)],
            lambda: [KL.RepeatVector(2), KL.GlobalAveragePooling1D(), KL.LeakyReLU()],
        ],
    )
    def test_one_side_of_zero(self, last, behind):
        model = ending(last(), *behind(), units=3)
        for loss in (CLASSES, losses.MulticlassHinge(), losses.MultilabelBinaryCrossentropy()):
            refuses(model, loss, "end")
        refuses(
            model, losses.ClippedLoss(losses.ClassWeighted(CLASSES, [1.0, 1.0, 0.5]), 1.0), "end"
        )

    @pytest.mark.parametrize("loss", [BINARY, losses.BinaryHinge(), losses.HKR(alpha=1.0)])
    def test_one_logit(self, loss):
        refuses(ending(KL.Activation("sigmoid", name="end")), loss, "end")

    def test_branches_and_nested_models(self):
        inputs = keras.Input((4,))
        x = ls.SpectralDense(3)(ls.BoundedInput((4,), 1.0)(inputs))
        nested = keras.Sequential([keras.Input((3,)), KL.Activation("relu", name="inner")])
        both = [KL.Activation("sigmoid", name="first")(x), nested(x)]
        for merge in (KL.Add(), KL.Average(), KL.Concatenate()):
            refuses(lipdp.Model(inputs, merge(both)), CLASSES, "first")
        refuses(lipdp.Model(inputs, nested(x)), CLASSES, "inner")
        check_logits(lipdp.Model(inputs, KL.Add()([both[0], x])), CLASSES)
        check_logits(lipdp.Model(inputs, KL.Subtract()(both)), CLASSES)

    @pytest.mark.parametrize("last", [ls.MaxMin, ls.FullSort, lambda **k: ls.GroupSort(2, **k)])
    def test_sorted_logits(self, last):
        refuses(ending(last(name="end"), KL.Flatten(), units=4), CLASSES, "end")
        check_logits(ending(last(), ls.SpectralDense(4), units=4), CLASSES)

    @pytest.mark.parametrize("built", [True, False])
    @pytest.mark.parametrize("activation", ["sigmoid", "softplus", "relu"])
    def test_before_anything_is_recorded(self, rows, built, activation):
        front = [ls.BoundedInput((4,), 2.0) if built else ls.ActivationClip(2.0)]
        layers = [*front, ls.SpectralDense(1), KL.Activation(activation, name="end")]
        model = lipdp.Sequential(layers)
        with pytest.raises(UnsafeSetting, match="'end'"):
            model.compile("sgd", BINARY, privacy=BUDGET)
            model.fit(*rows, batch_size=50, verbose=0)
        assert model.ledger.steps == 0

    def test_a_layer_that_changed_after_compile(self, rows):
        end = KL.Activation("tanh", name="end")
        model = ending(end)
        model.compile("sgd", BINARY, privacy=BUDGET)
        end.activation = keras.activations.sigmoid
        with pytest.raises(UnsafeSetting, match="'end'"):
            model.fit(*rows, batch_size=50, verbose=0)
        assert model.ledger.steps == 0

    def test_two_outputs(self):
        inputs = keras.Input((4,))
        x = ls.BoundedInput((4,), 1.0)(inputs)
        heads = [ls.SpectralDense(1)(x), ls.SpectralDense(1)(x)]
        for outputs in (heads, {"a": heads[0], "b": heads[1]}):
            with pytest.raises(UnsupportedLayer, match=r"several outputs.*one output"):
                lipdp.Model(inputs, outputs).compile("sgd", BINARY, privacy=BUDGET)


class OwnLoss(LipschitzLoss):
    def call(self, y_true, y_pred):
        return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=-1)

    def lipschitz(self, logit_bound, num_outputs):
        return 1.0


class TestWhatIsTaken:
    @pytest.mark.parametrize(
        "last",
        [
            lambda: KL.Activation("tanh"),
            lambda: KL.Activation("hard_tanh"),
            lambda: KL.Activation("elu"),
            KL.LeakyReLU,
            ls.HouseholderActivation,
            lambda: ls.SphereNormalization(1.0, 0.1),
            lambda: ls.BoundedBias(1.0),
            lambda: KL.Dense(4),
        ],
    )
    def test_both_sides_of_zero(self, last):
        check_logits(ending(last(), units=4), CLASSES)

    def test_what_makes_both_signs_again(self):
        squashed = KL.Activation("sigmoid")
        check_logits(ending(squashed, KL.Rescaling(2.0, offset=-1.0)), BINARY)
        check_logits(ending(squashed, ls.SpectralDense(1)), BINARY)

    @pytest.mark.parametrize("activation", ["relu", "softplus", "sigmoid", "softmax"])
    @pytest.mark.parametrize(
        "loss",
        [
            losses.MeanAbsoluteError(),
            losses.Huber(),
            losses.MeanSquaredError(target_bound=1.0),
            losses.CosineLoss(),
            OwnLoss(),
        ],
        ids=lambda loss: loss.name,
    )
    def test_losses_that_take_no_logits(self, loss, activation):
        check_logits(ending(KL.Activation(activation), units=3), loss)

    def test_a_regression_on_positive_targets_trains(self, rows):
        x, y = rows
        model = ending(KL.Activation("softplus"))
        model.compile("sgd", losses.MeanAbsoluteError(), privacy=BUDGET)
        model.fit(x, y.astype("float32"), batch_size=50, verbose=0)
        assert model.ledger.steps > 0

    def test_what_convert_makes_of_a_sigmoid(self):
        plain = keras.Sequential([keras.Input((4,)), KL.Dense(1, activation="sigmoid")])
        model, changes = lipdp.convert(plain)
        assert any("losses take logits" in change.why for change in changes)
        model.compile("sgd", BINARY, privacy=BUDGET)

    def test_what_convert_makes_of_a_relu(self):
        plain = keras.Sequential([keras.Input((4,)), KL.Dense(1, activation="relu", name="end")])
        model, _ = lipdp.convert(plain)
        with pytest.raises(LipdpError, match="end_activation"):
            model.compile("sgd", BINARY, privacy=BUDGET)
