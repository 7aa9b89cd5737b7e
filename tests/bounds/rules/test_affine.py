"""What rounding does to the input of an activation inside a layer."""

from dataclasses import replace

import keras
import pytest

from lipdp.bounds.rules import bounds_of
from lipdp.bounds.rules.base import Shapes
from lipdp.projections import SpectralProjection

CURVED = ("gelu", "silu", "hard_silu", "softplus", "tanh_shrink", "squareplus")
SLACK = 0.1  # far above what rounding does, to be seen


def rule(activation):
    layer = keras.layers.Dense(
        4, activation=activation, use_bias=False, kernel_constraint=SpectralProjection(1.0)
    )
    layer.build((None, 4))
    layer.kernel.assign(keras.ops.eye(4))
    return bounds_of(layer, Shapes(((4,),), (4,)))


@pytest.mark.parametrize("activation", CURVED)
@pytest.mark.parametrize("x", [0.05, 0.5, 1.3, 2.0])
def test_the_activation_sees_what_is_computed(activation, x):
    exact = rule(activation)
    rounded = replace(exact, slack=SLACK)
    # A product that comes out longer by its whole slack, before an exact activation.
    longest = exact.operator * x * (1.0 + SLACK)
    room = 1.0 + rounded.rounding(0.0)
    assert rounded.forward_bound(x) * room >= exact.activation.forward_bound(longest)
    slope = exact.activation.backward_bound(longest, 1.0)
    assert rounded.backward_bound(x, 1.0) >= exact.operator * slope
    assert rounded.parameter_bounds(x, 1.0)[0] >= x * slope


def test_slopes_do_grow_with_the_input():
    """Else the test above could not fail."""
    for activation in CURVED:
        inner = rule(activation).activation
        assert inner.backward_bound(1.0 + SLACK, 1.0) > inner.backward_bound(1.0, 1.0), activation
