"""Mistakes that libraries of Lipschitz layers really make; each must be caught."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from lipdp.errors import BoundViolation
from lipdp.layers.base import LipschitzLayer, NonExpansiveLayer
from lipdp.projections import BjorckProjection, L2Ball, Projection
from lipdp.testing import check_layer, check_projection


class PowerIteration(Projection):
    """Divides by an estimate of the norm, which a few iterations leave too small."""

    norm_bound = 1.0

    def __init__(self, iterations):
        self.iterations = iterations

    def bound_of(self, w):
        v = np.ones(w.shape[-1]) / math.sqrt(w.shape[-1])
        for _ in range(self.iterations):
            v = w.T @ (w @ v)
            length = np.linalg.norm(v)
            if length == 0:
                return 0.0
            v = v / length
        return float(np.linalg.norm(w @ v))

    def spectral_bound(self, shape):
        return 1.0

    def __call__(self, w):
        values = ops.convert_to_numpy(w).astype("float64")
        size = max(self.bound_of(values) * (1 + 1e-6), 1.0)
        return ops.convert_to_tensor(
            (values / size).astype(keras.backend.standardize_dtype(w.dtype))
        )


class Dense(NonExpansiveLayer):
    """A dense layer that trusts its constraint."""

    def __init__(self, constraint, **kwargs):
        super().__init__(**kwargs)
        self.constraint = constraint

    def build(self, shape):
        self.kernel = self.add_weight(
            name="kernel", shape=(shape[-1], 4), constraint=self.constraint
        )

    def call(self, x):
        return x @ ops.convert_to_tensor(self.kernel)

    def parameter_bounds(self, x, g):
        return [x * g]


class AverageCoverage(NonExpansiveLayer):
    """A convolution scaled by the mean number of windows that read a position, not the greatest."""

    def __init__(self, filters, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters

    def build(self, shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(3, 3, shape[-1], self.filters),
            initializer="orthogonal",
            constraint=BjorckProjection(),
        )
        reads = [3 * size - 1 * (1 + 1) for size in shape[1:3]]
        self.factor = math.sqrt(shape[1] * shape[2] / math.prod(reads))

    def call(self, x):
        return self.factor * ops.conv(x, self.kernel, padding="same")

    def parameter_bounds(self, x, g):
        return [3.0 * self.factor * x * g]


class Bias(NonExpansiveLayer):
    """A bias whose copies at all positions are counted once, forward or backward."""

    def __init__(self, forward, backward, **kwargs):
        super().__init__(**kwargs)
        self.counted = forward, backward

    def build(self, shape):
        self.positions = math.prod(shape[1:-1])
        self.bias = self.add_weight(
            name="bias", shape=shape[-1:], initializer="zeros", constraint=L2Ball(1.0)
        )

    def call(self, x):
        return x + self.bias

    def forward_bound(self, x):
        return x + (math.sqrt(self.positions) if self.counted[0] else 1.0)

    def parameter_bounds(self, x, g):
        return [(math.sqrt(self.positions) if self.counted[1] else 1.0) * g]


class NotLinear(LipschitzLayer):
    """True bounds, but not a linear one as claimed."""

    linear_backward = True

    def call(self, x):
        return x + 0.0

    def forward_bound(self, x):
        return x

    def backward_bound(self, x, g):
        return g + min(g, 1.0)

    def parameter_bounds(self, x, g):
        return []


class MinMax(NonExpansiveLayer):
    def call(self, x):
        a, b = x[..., ::2], x[..., 1::2]
        return ops.stack([ops.minimum(a, b), ops.maximum(a, b)], axis=-1)


class Lookup(LipschitzLayer):
    """A table whose gradient is claimed to see each id once, or that wraps ids around."""

    def __init__(self, positions=5, **kwargs):
        super().__init__(**kwargs)
        self.positions = positions

    def build(self, shape):
        self.table = self.add_weight(name="table", shape=(4, 2), constraint=L2Ball(1.0))

    def call(self, ids):
        chosen = ops.one_hot(ops.cast(ops.clip(ids, 0, 3), "int32"), 4, dtype=self.compute_dtype)
        return chosen @ ops.convert_to_tensor(self.table)

    def forward_bound(self, x):
        return math.sqrt(self.positions)

    def backward_bound(self, x, g):
        return 0.0

    def parameter_bounds(self, x, g):
        return [math.sqrt(self.positions) * g]

    def lipschitz(self, x):
        return math.inf


@pytest.mark.parametrize("iterations", [0, 1, 3])
@pytest.mark.parametrize("shape", [(6, 4), (40, 30)])
def test_a_power_iteration_is_no_bound(iterations, shape):
    with pytest.raises(BoundViolation, match="above the bound"):
        check_projection(PowerIteration(iterations), shape)


def test_a_layer_that_trusts_a_power_iteration():
    with pytest.raises(BoundViolation, match="above the bound"):
        check_layer(Dense(PowerIteration(1)), (6,), 1.0)


def test_the_spectral_bound_of_a_projection_must_be_one():
    ball = L2Ball(2.0)
    with pytest.raises(BoundViolation, match="spectral norm"):
        check_projection(_Understated(ball), (6, 4))


class _Understated(Projection):
    def __init__(self, inner):
        self.inner, self.norm_bound, self.bound_of = inner, inner.norm_bound, inner.bound_of

    norm_bound = bound_of = None

    def spectral_bound(self, shape):
        return 0.9 * self.inner.norm_bound

    def __call__(self, w):
        return self.inner(w)


def test_the_average_coverage_of_a_convolution():
    with pytest.raises(BoundViolation, match="above the bound"):
        check_layer(AverageCoverage(9), (4, 4, 1), 1.0)


def test_how_far_the_average_coverage_goes():
    layer = AverageCoverage(9)
    layer.build((None, 4, 4, 1))
    layer.kernel.assign(np.eye(9).reshape(3, 3, 1, 9))
    image = np.zeros((1, 4, 4, 1), "float32")
    image[0, 1, 1] = 1.0
    assert np.linalg.norm(layer(image)) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("counted", "message"),
    [((False, True), "output"), ((True, False), "gradient of bias")],
)
def test_a_bias_that_is_counted_once(counted, message):
    with pytest.raises(BoundViolation, match=message):
        check_layer(Bias(*counted), (4, 2), 1.0)


def test_a_backward_bound_that_is_not_linear():
    with pytest.raises(BoundViolation, match="not linear"):
        check_layer(NotLinear(), (4,), 1.0)


@pytest.mark.parametrize("shape", [(6,), (2, 2)])
def test_sorting_by_minimum_and_maximum(shape):
    with pytest.raises(BoundViolation, match="input gradient"):
        check_layer(MinMax(), shape, 1.0)


class TestIds:
    def test_an_honest_table(self):
        assert check_layer(Lookup(), (5,), 1.0, ids=4).best > 0.99

    def test_equal_ids_add_their_gradients(self):
        with pytest.raises(BoundViolation, match=r"output|gradient of table"):
            check_layer(Lookup(positions=1), (5,), 1.0, ids=4)


class _Claim:
    """Bounds of a merging layer that need not be true."""

    def __init__(self, forward, jacobians, joint=False):
        self.forward_bound = forward
        self.jacobians, self.joint = lambda xs: jacobians, joint

    def rounding(self, unit):
        return 32 * unit


@pytest.mark.parametrize(
    ("layer", "claim", "message"),
    [
        (keras.layers.Add, _Claim(lambda xs: math.hypot(*xs), [1.0, 1.0]), "output"),
        (keras.layers.Add, _Claim(sum, [1.0, 0.9]), "gradient of input 1"),
        (keras.layers.Add, _Claim(sum, [1.0, 1.0], joint=True), "gradient of all inputs"),
        (keras.layers.Multiply, _Claim(math.prod, [1.0, 1.0]), "gradient of input"),
        (keras.layers.Concatenate, _Claim(max, [1.0, 1.0], joint=True), "output"),
    ],
)
def test_lying_rules_of_merging_layers(layer, claim, message):
    with pytest.raises(BoundViolation, match=message):
        check_layer(layer(), [(4,), (4,)], [1.0, 2.0], rule=lambda _: claim)


class MixedSum(keras.layers.Layer):
    def call(self, tensors):
        return tensors[0] + tensors[1] - ops.mean(tensors[1], axis=0, keepdims=True)


def test_a_merging_layer_that_mixes_samples():
    with pytest.raises(BoundViolation, match="depends on other rows"):
        check_layer(
            MixedSum(), [(4,), (4,)], 1.0, rule=lambda _: _Claim(lambda xs: 4 * sum(xs), [2.0, 2.0])
        )


def test_merging_layers_without_a_rule_are_refused():
    with pytest.raises(TypeError, match="no proved bound"):
        check_layer(keras.layers.Maximum(), [(4,), (4,)], 1.0)
