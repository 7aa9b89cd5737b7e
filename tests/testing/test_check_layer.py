import keras
import numpy as np
import pytest
from keras import ops

from lipdp.errors import BoundViolation, InvalidValue, UnsupportedLayer
from lipdp.layers.base import LipschitzLayer, NonExpansiveLayer
from lipdp.testing import Tightness, check_layer


class Contraction(LipschitzLayer):
    """Dense with a Frobenius ball of radius 1, claiming ``claim`` times its bounds."""

    def __init__(self, units=4, claim=1.0, **kwargs):
        super().__init__(**kwargs)
        self.units, self.claim = units, claim

    def build(self, shape):
        self.kernel = self.add_weight(
            shape=(shape[-1], self.units), name="kernel", constraint=self.project
        )

    @staticmethod
    def project(w):
        return w / ops.maximum(ops.sqrt(ops.sum(ops.square(w))) * 1.00001, 1.0)

    def call(self, x):
        return ops.matmul(x, self.kernel)

    def forward_bound(self, x):
        return self.claim * x

    def backward_bound(self, x, g):
        return self.claim * g

    def parameter_bounds(self, x, g):
        return [self.claim * x * g]


class LyingParameters(Contraction):
    def parameter_bounds(self, x, g):
        return [0.5 * x * g]


class LyingBackward(Contraction):
    def backward_bound(self, x, g):
        return 0.5 * g


class LyingLipschitz(Contraction):
    def lipschitz(self, x):
        return 0.5


class Missing(Contraction):
    def parameter_bounds(self, x, g):
        return []


class Mean(NonExpansiveLayer):
    def call(self, x):
        return x - ops.mean(x, axis=0, keepdims=True)


class BatchClip(NonExpansiveLayer):
    """Mixes samples in the backward pass only: the whole batch is clipped to one norm."""

    def call(self, x):
        @ops.custom_gradient
        def identity(t):
            def backward(*args, upstream=None):
                g = args[0] if upstream is None else upstream
                return g / ops.maximum(ops.sqrt(ops.sum(ops.square(g))), 1.0)

            return ops.copy(t), backward

        return identity(x)


class MovingMean(NonExpansiveLayer):
    """Row by row, but with a state that follows the data."""

    def build(self, shape):
        self.mean = self.add_weight(shape=shape[1:], trainable=False, initializer="zeros")

    def call(self, x, training=False):
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(x, axis=0))
        return x + 0.0


class MinMaxSort(NonExpansiveLayer):
    """A GroupSort whose automatic derivative at a tie has norm sqrt 2."""

    def call(self, x):
        a, b = x[..., ::2], x[..., 1::2]
        return ops.concatenate([ops.minimum(a, b), ops.maximum(a, b)], axis=-1)


class ReluSort(NonExpansiveLayer):
    def call(self, x):
        a, b = x[..., ::2], x[..., 1::2]
        up = ops.relu(a - b)
        return ops.concatenate([a - up, b + up], axis=-1)


class MapBias(LipschitzLayer):
    """A bias of norm at most 1 on every position."""

    def __init__(self, positions, **kwargs):
        super().__init__(**kwargs)
        self.positions = positions

    def build(self, shape):
        self.bias = self.add_weight(
            shape=shape[-1:], name="bias", initializer="zeros", constraint=Contraction.project
        )

    def call(self, x):
        return x + self.bias

    def forward_bound(self, x):
        return x + self.positions**0.5

    def backward_bound(self, x, g):
        return g

    def parameter_bounds(self, x, g):
        return [self.positions**0.5 * g]


class Ball(NonExpansiveLayer):
    """Projects on the unit ball; ``safe`` decides about rows that are not finite."""

    def __init__(self, safe, **kwargs):
        super().__init__(**kwargs)
        self.safe = safe

    def call(self, x):
        if self.safe:
            finite = ops.all(ops.isfinite(x), axis=-1, keepdims=True)
            x = ops.clip(ops.where(finite, x, ops.zeros_like(x)), -1e15, 1e15)
        square = ops.sum(ops.square(x), axis=-1, keepdims=True)
        return x / ops.sqrt(ops.maximum(square, 1.0))

    def forward_bound(self, x):
        return min(x, 1.0)

    def rounding(self, unit):
        return 16 * unit


class Masked(NonExpansiveLayer):
    """Independent random signs in each slot: honest, though two calls differ."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.generator = keras.random.SeedGenerator(3)

    def call(self, x, training=False):
        if not training:
            return x
        uniform = keras.random.uniform(ops.shape(x), seed=self.generator)
        return x * ops.sign(uniform - 0.5)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (Contraction(units=20), (3,)),
        (ReluSort(), (6,)),
        (ReluSort(), (40,)),
        (MapBias(12), (3, 4, 2)),
        (Ball(safe=True), (4,)),
        (Masked(), (5,)),
    ],
    ids=["wide dense", "sort", "wide sort", "bias", "ball", "random"],
)
@pytest.mark.slow
def test_honest_layers_pass_and_attain_their_bounds(layer, shape):
    found = check_layer(layer, shape, 3.0)
    assert isinstance(found, Tightness)
    assert found.best > 0.999
    assert found.ratios["input gradient"] > 0.999


def test_all_bounds_of_a_dense_layer_are_found_tight_and_its_weights_put_back():
    layer = Contraction()
    layer.build((None, 5))
    before = ops.convert_to_numpy(layer.kernel.value).copy()
    found = check_layer(layer, (5,), 3.0)
    assert found.ratios["input gradient"] > 0.999
    assert found.ratios["gradient of kernel"] > 0.999
    assert found.ratios["output"] > 0.999
    assert found.ratios["difference of outputs"] > 0.99
    np.testing.assert_array_equal(before, ops.convert_to_numpy(layer.kernel.value))


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (Contraction(claim=0.5), (5,), "above the bound"),
        (Contraction(claim=0.9999), (5,), "above the bound"),
        (Contraction(claim=0.5, units=30), (30,), "above the bound"),
        (Contraction(claim=float("nan")), (5,), "is none"),
        (LyingParameters(), (5,), "gradient of kernel"),
        (LyingParameters(units=24), (5,), "gradient of kernel"),
        (LyingBackward(), (5,), "input gradient"),
        (LyingBackward(units=24), (5,), "input gradient"),
        (LyingLipschitz(), (5,), "difference of outputs"),
        (Missing(), (5,), "number of bounds"),
        (Mean(), (5,), "depends on other rows"),
        (BatchClip(), (5,), "gradient of a row depends on other rows"),
        (MovingMean(), (5,), "state is updated from data"),
        (MinMaxSort(), (6,), "input gradient"),
        (MinMaxSort(), (40,), "input gradient"),
        (MapBias(1), (3, 4, 2), "above the bound"),
        (Ball(safe=False), (4,), "hostile"),
    ],
)
def test_dishonest_layers_are_caught(layer, shape, message):
    with pytest.raises(BoundViolation, match=message):
        check_layer(layer, shape, 3.0)


def test_batch_normalization_is_caught_with_the_rule_of_the_identity():
    layer = keras.layers.BatchNormalization()
    with pytest.raises(BoundViolation):
        check_layer(layer, (5,), 3.0, rule=lambda layer: NonExpansive())


def test_plain_keras_layers_are_checked_by_their_rule():
    assert check_layer(keras.layers.ReLU(), (6,), 3.0).best > 0.999
    with pytest.raises(UnsupportedLayer):
        check_layer(keras.layers.BatchNormalization(), (6,), 3.0)


class NonExpansive:
    """A rule that claims the identity's bounds for some other layer."""

    def forward_bound(self, x):
        return x

    def backward_bound(self, x, g):
        return g

    def parameter_bounds(self, x, g):
        return [x * g + g, x * g + g]

    def rounding(self, unit):
        return 8 * unit


@pytest.mark.parametrize("radius", [0.0, -1.0, float("inf"), float("nan")])
def test_radius_must_be_positive_and_finite(radius):
    with pytest.raises(InvalidValue):
        check_layer(Contraction(), (5,), radius)
