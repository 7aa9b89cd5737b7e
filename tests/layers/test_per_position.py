"""Balls of positions instead of samples: ActivationClip, SphereNormalization, CotangentClip."""

import keras
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lipdp.errors import InvalidValue
from lipdp.layers import ActivationClip, CotangentClip, SphereNormalization
from lipdp.numerics import unit_roundoff

S = 4
MAKERS = {
    "clip": lambda **k: ActivationClip(0.5, per_position=True, **k),
    "sphere": lambda **k: SphereNormalization(0.5, 0.1, per_position=True, **k),
    "cotangent": lambda **k: CotangentClip(0.5, per_position=True, **k),
}
every_layer = pytest.mark.parametrize("name", MAKERS)
anything = hnp.arrays(np.float32, (2, S, 3), elements=st.floats(width=32, allow_nan=True))
HOSTILE = np.full((2, S, 3), 3e38, np.float32)
HOSTILE[0, 1] = np.nan
HOSTILE[1, 2, 0] = np.inf


def built(name, dtype="float32"):
    layer = MAKERS[name](dtype=dtype)
    layer.build((None, S, 3))
    return layer


def passed(layer, x, vjp):
    """What the layer does to x: forward, or backward for the cotangent."""
    if isinstance(layer, CotangentClip):
        return np.stack([vjp(layer, np.zeros_like(row), row)[0] for row in x]).astype("float64")
    return keras.ops.convert_to_numpy(layer(x)).astype("float64")


@every_layer
@given(x=anything)
@example(x=HOSTILE)
@example(x=np.zeros((2, S, 3), np.float32))
def test_positions_end_in_balls_of_their_own(name, x, vjp):
    layer = built(name)
    y = passed(layer, x, vjp)
    slack = 1.0 + layer.rounding(unit_roundoff("float32"))
    assert np.all(np.linalg.norm(y, axis=-1) <= 0.5 * slack)
    assert np.all(np.linalg.norm(y.reshape(2, -1), axis=1) <= np.sqrt(S) * 0.5 * slack)
    broken = ~np.all(np.isfinite(x), axis=-1)
    assert not np.any(y[broken])


@every_layer
@given(x=hnp.arrays(np.float64, (2, S, 3), elements=st.floats(-1e9, 1e9)))
def test_each_position_is_treated_as_a_sample(name, x, vjp):
    config = {**MAKERS[name](dtype="float64").get_config(), "per_position": False}
    whole = type(built(name)).from_config(config)
    whole.build((None, 3))
    flat = passed(whole, x.reshape(-1, 3), vjp)
    np.testing.assert_array_equal(passed(built(name, "float64"), x, vjp), flat.reshape(x.shape))


def test_bounds():
    clip, sphere, cotangent = (built(name) for name in MAKERS)
    assert (clip.forward_bound(9.0), clip.forward_bound(0.7)) == (1.0, 0.7)
    assert (sphere.forward_bound(9.0), sphere.forward_bound(0.1)) == (1.0, 0.5)
    assert clip.forward_bound(np.inf) == sphere.forward_bound(np.inf) == 1.0
    assert (clip.backward_bound(9.0, 2.0), sphere.backward_bound(9.0, 2.0)) == (2.0, 10.0)
    assert cotangent.backward_bound(9.0, np.inf) == 1.0
    assert cotangent.backward_bound(9.0, 0.7) == 0.7
    assert [layer.linear_backward for layer in (clip, sphere, cotangent)] == [True, True, False]


def test_bounds_are_attained_at_all_positions_at_once(vjp, operator_norm):
    x = np.full((1, S, 3), 7.0)
    for name in MAKERS:
        norm = np.linalg.norm(passed(built(name, "float64"), x, vjp))
        assert norm == pytest.approx(1.0)
    small = np.full((S, 3), 1e-3)
    assert operator_norm(built("sphere", "float64"), small) == pytest.approx(5.0)


@every_layer
def test_a_vector_is_one_position(name):
    layer = MAKERS[name]()
    layer.build((None, 3))
    assert min(layer.forward_bound(np.inf), layer.backward_bound(1.0, np.inf)) == 0.5


@every_layer
def test_configuration_comes_back(name):
    copy = keras.layers.deserialize(keras.layers.serialize(MAKERS[name]()))
    assert copy.per_position is True
    old = {k: v for k, v in MAKERS[name]().get_config().items() if k != "per_position"}
    assert type(copy).from_config(old).per_position is False


@pytest.mark.parametrize("value", ["True", 1, None])
def test_only_true_and_false_are_flags(value):
    with pytest.raises(InvalidValue, match="per_position"):
        ActivationClip(1.0, per_position=value)
