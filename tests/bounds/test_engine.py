"""The engine: known values, and an adversarial search over whole models."""

from __future__ import annotations

import math

import keras
import numpy as np
import pytest

from lipdp.bounds import engine, gradient_bounds, lipschitz_constant, numerical_error
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.errors import UnboundedGradient
from lipdp.layers import (
    BoundedBias,
    BoundedInput,
    CotangentClip,
    FrobeniusDense,
    GroupSort,
    MaxMin,
    SpectralDense,
    SphereNormalization,
)
from lipdp.losses import MulticlassHinge, TemperedBinaryCrossentropy, TemperedCrossentropy
from lipdp.projections import L2Ball

SLACK = 1e-4


def dense_net(*units: int, bias: bool = False, radius: float = 1.0) -> keras.Sequential:
    layers = [BoundedInput((6,), radius=radius)]
    for size in units:
        layers.append(SpectralDense(size))
        if bias:
            layers.append(BoundedBias(radius=1.0))
    return keras.Sequential(layers)


def assert_close_above(value: float, exact: float) -> None:
    assert exact <= value <= exact * (1.0 + SLACK)


class TestKnownValues:
    # sqrt(2) is the supremum of the softmax gradient; temperature 64 makes the bound attain it.
    loss = TemperedCrossentropy(inverse_temperature=64.0)

    def test_one_dense_layer(self):
        assert_close_above(gradient_bounds(dense_net(10), self.loss).total, math.sqrt(2))

    def test_dense_layer_with_bias(self):
        bounds = gradient_bounds(dense_net(10, bias=True), self.loss)
        assert_close_above(bounds.total, 2.0)

    def test_three_dense_layers(self):
        bounds = gradient_bounds(dense_net(8, 8, 10), self.loss)
        assert_close_above(bounds.total, math.sqrt(6))

    def test_two_classes_with_bounded_logits(self):
        loss = TemperedCrossentropy(inverse_temperature=1.0)
        assert_close_above(
            gradient_bounds(dense_net(2), loss).total,
            math.sqrt(2) / (1.0 + math.exp(-math.sqrt(2))),
        )

    def test_ten_classes_at_temperature_one(self):
        total = gradient_bounds(dense_net(10), TemperedCrossentropy(inverse_temperature=1.0)).total
        assert 1.0145 <= total <= 1.016

    def test_input_radius_scales_the_bound(self):
        loss = MulticlassHinge(margin=0.1)
        assert_close_above(gradient_bounds(dense_net(4, radius=3.0), loss).total, 3 * math.sqrt(2))

    def test_bias_at_positions_counts_each(self):
        model = keras.Sequential(
            [
                BoundedInput((7, 4), radius=1.0),
                BoundedBias(radius=0.5),
                keras.layers.Flatten(),
                FrobeniusDense(1),
            ]
        )
        bounds = gradient_bounds(model, TemperedBinaryCrossentropy(inverse_temperature=1e6))
        assert_close_above(bounds.parameters[0], math.sqrt(7))
        assert_close_above(bounds.parameters[1], 1.0 + math.sqrt(7) * 0.5)


class TestFreeWeights:
    """Plain Dense layers: only a parameter bound has to be finite."""

    loss = TemperedCrossentropy(inverse_temperature=64.0)

    def test_one_unconstrained_layer_behind_a_bounded_input(self):
        model = keras.Sequential([BoundedInput((6,), radius=2.0), keras.layers.Dense(3)])
        bounds = gradient_bounds(model, self.loss)
        assert_close_above(bounds.parameters[0], 2 * math.sqrt(2))
        assert_close_above(bounds.parameters[1], math.sqrt(2))

    def test_two_in_a_row_are_refused_by_name(self):
        model = keras.Sequential(
            [
                BoundedInput((6,), radius=1.0),
                keras.layers.Dense(5, name="first"),
                keras.layers.Dense(3, name="second"),
            ]
        )
        with pytest.raises(UnboundedGradient, match="first/kernel"):
            gradient_bounds(model, self.loss)

    def test_normalise_linear_clip_blocks_train(self):
        model = keras.Sequential(
            [
                BoundedInput((6,), radius=1.0),
                keras.layers.Dense(5),
                CotangentClip(max_norm=0.25),
                keras.layers.ReLU(),
                SphereNormalization(radius=8.0, min_norm=1.0),
                keras.layers.Dense(3),
            ]
        )
        bounds = gradient_bounds(model, self.loss)
        assert_close_above(bounds.parameters[0], 0.25)
        assert_close_above(bounds.parameters[2], 8 * math.sqrt(2))
        assert lipschitz_constant(model) > 0

    def test_constrained_bias_of_a_plain_dense_layer(self):
        dense = keras.layers.Dense(3, bias_constraint=L2Ball(0.5), kernel_initializer="zeros")
        model = keras.Sequential([BoundedInput((6,), radius=1.0), dense])
        assert gradient_bounds(model, self.loss).parameters[1] < 2.0


def test_the_slope_of_a_leaky_relu_is_the_one_that_runs():
    model = keras.Sequential(
        [
            BoundedInput((2,), radius=1.0, dtype="float64"),
            keras.layers.ReLU(negative_slope=1.7, dtype="float64"),
            SpectralDense(2, dtype="float64"),
        ]
    )
    assert gradient_bounds(model, MulticlassHinge(margin=1.0)).rows[1].lipschitz >= 1.7000000476


class TestAdversary:
    """No input, label or weight of the constraint set may exceed a bound."""

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize(
        "loss",
        [
            TemperedCrossentropy(inverse_temperature=2.0),
            TemperedCrossentropy(inverse_temperature=64.0),
            MulticlassHinge(margin=0.5),
        ],
    )
    @pytest.mark.slow
    def test_gradients_stay_below_their_bounds(self, loss, dtype):
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [
                BoundedInput((5,), radius=1.5, dtype=dtype),
                SpectralDense(8, dtype=dtype),
                BoundedBias(radius=0.3, dtype=dtype),
                MaxMin(dtype=dtype),
                SpectralDense(8, dtype=dtype),
                GroupSort(4, dtype=dtype),
                FrobeniusDense(3, radius=1.2, dtype=dtype),
            ]
        )
        bounds = np.asarray(gradient_bounds(model, loss).parameters)
        rng = np.random.default_rng(0)
        best = 0.0
        for _ in range(6):
            for variable in model.trainable_variables:
                push = rng.normal(size=variable.shape) * 10.0 ** rng.uniform(-1, 3)
                variable.assign(variable.constraint(keras.ops.cast(variable + push, dtype)))
            x = _adversarial_rows(rng, 5)
            norms = per_sample_gradient_norms(model, loss, x, rng.integers(0, 3, len(x)))
            assert (norms <= bounds).all()
            best = max(best, float((norms / bounds).max()))
        # A bound that nothing comes near would hide a wrong test.
        assert best > 0.5


def _adversarial_rows(rng: np.random.Generator, size: int) -> np.ndarray:
    sphere = rng.normal(size=(12, size))
    sphere *= 1.5 / np.linalg.norm(sphere, axis=1, keepdims=True)
    special = [np.zeros(size), np.ones(size), np.full(size, 1e30), np.eye(size)[0], -np.ones(size)]
    bad = np.full((2, size), 0.5)
    bad[0, 0], bad[1, 2] = np.nan, np.inf
    return np.concatenate([sphere, special, bad])


class TestSums:
    """What several readers send back to a tensor, and several uses to a variable, is added up."""

    def test_a_sum_of_floats_is_at_most_so_much_larger(self):
        unit = 2.0**-24
        assert engine._of_sum(1, unit) == 1.0
        for count in (2, 3, 100):
            assert engine._of_sum(count, unit) >= (1.0 + unit) ** (count - 1)

    @pytest.mark.parametrize("shared", [True, False])
    def test_it_is_in_the_bounds(self, shared, monkeypatch):
        inputs = keras.Input((3,))
        kernel = SpectralDense(3)
        read = kernel(BoundedInput((3,), 1.0)(inputs))
        again = kernel(read) if shared else read
        out = SpectralDense(2)(keras.layers.Add()([keras.layers.Flatten()(read), again]))
        model, loss = keras.Model(inputs, out), TemperedCrossentropy(1.0)
        found = gradient_bounds(model, loss).parameters
        monkeypatch.setattr(engine, "_of_sum", lambda count, unit: 1.0)
        assert found[0] > gradient_bounds(model, loss).parameters[0] * (1.0 + 2.0**-24)


class TestLipschitz:
    def test_present_weights_count(self):
        model = dense_net(6)
        model.layers[1].kernel.assign(np.diag([3.0, 2.999, 1.0, 0, 0, 0]).astype("float32"))
        assert lipschitz_constant(model) == pytest.approx(3.0, rel=1e-9)
        assert lipschitz_constant(model) >= 3.0

    def test_dropout_counts_in_training_alone(self):
        model = keras.Sequential(
            [BoundedInput((6,), radius=1.0), keras.layers.Dropout(0.5), SpectralDense(3)]
        )
        loss = MulticlassHinge(margin=1.0)
        assert_close_above(gradient_bounds(model, loss).total, 2 * math.sqrt(2))
        assert lipschitz_constant(model) <= 1.0

    def test_numerical_error_covers_float32(self):
        keras.utils.set_random_seed(0)
        low = dense_net(64, 64, 5, bias=True)
        high = keras.Sequential(
            [
                type(layer).from_config({**layer.get_config(), "dtype": "float64"})
                for layer in low.layers
            ]
        )
        high.set_weights(low.get_weights())
        x = np.random.default_rng(1).normal(size=(200, 6)).astype("float32")
        gap = np.linalg.norm(low.predict(x, verbose=0) - high.predict(x, verbose=0), axis=1).max()
        assert 0 < gap <= numerical_error(low) + numerical_error(high)
        assert numerical_error(high) < 1e-12 < numerical_error(low) < 1e-3

    def test_weights_outside_their_set_count_by_their_own_norm(self):
        model = dense_net(6)
        before = numerical_error(model)
        model.layers[1].kernel.assign(5.0 * np.eye(6, dtype="float32"))
        assert 5.0 * before < 8.0 * numerical_error(model) < math.inf
