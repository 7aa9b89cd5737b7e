import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lipdp.bounds.rules.base import Shapes
from lipdp.bounds.rules.structure import RULES
from lipdp.errors import UnsupportedLayer

numbers = st.floats(-5, 5)
values = st.one_of(numbers, st.tuples(numbers, numbers).map(list))


def rule_of(layer, sample):
    return RULES[type(layer)](layer, Shapes((sample,), sample))


@settings(max_examples=8)
@example(scale=1.412543374680972, offset=4.4141523925953965e-21, seed=0)  # in float32
@given(scale=values, offset=values, seed=st.integers(0, 9))
def test_norms_are_bounded(scale, offset, seed, jacobian):
    layer = keras.layers.Rescaling(scale, offset, dtype="float64")
    rule = rule_of(layer, (3, 2))
    x = np.random.default_rng(seed).normal(size=(3, 2))
    slack = 1.0 + rule.rounding(2.0**-53)
    assert np.linalg.norm(layer(x[None])) <= rule.forward_bound(np.linalg.norm(x)) * slack
    exact = np.linalg.norm(jacobian(layer, x), 2)
    assert exact == pytest.approx(rule.backward_bound(1.0, 1.0), rel=1e-7, abs=1e-30)
    assert rule.lipschitz(1.0) == rule.backward_bound(1.0, 1.0)


def test_the_offset_counts_at_every_entry():
    rule = rule_of(keras.layers.Rescaling(1 / 127.5, -1.0), (4, 4))
    assert rule.forward_bound(0.0) == 4.0
    assert (
        rule_of(keras.layers.Rescaling([0.5, 2.0], [3.0, 4.0]), (9, 2)).forward_bound(1.0) == 17.0
    )


@pytest.mark.parametrize("scale", [[1.0, 2.0, 3.0], np.ones((3, 1)), np.ones((1, 3, 2)), np.inf])
def test_factors_that_are_not_per_channel_are_refused(scale):
    with pytest.raises(UnsupportedLayer, match="Rescaling"):
        rule_of(keras.layers.Rescaling(scale), (3, 2))


def test_channels_first_is_refused_for_channel_factors():
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        assert rule_of(keras.layers.Rescaling(2.0), (2, 3, 2)).lipschitz(1.0) == 2.0
        with pytest.raises(UnsupportedLayer):
            rule_of(keras.layers.Rescaling([1.0, 2.0]), (2, 3, 2))
    finally:
        keras.config.set_image_data_format(before)
