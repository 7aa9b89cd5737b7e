"""What every layer promises."""

import math

import keras
import numpy as np
import pytest

from lipdp import layers
from lipdp.errors import InvalidValue
from lipdp.numerics import unit_roundoff

SHAPE = (3, 4)
MAKERS = {
    "ActivationClip": lambda **k: layers.ActivationClip(1.5, **k),
    "BoundedBias": lambda **k: layers.BoundedBias(0.5, **k),
    "BoundedInput": lambda **k: layers.BoundedInput(SHAPE, 1.5, **k),
    "CotangentClip": lambda **k: layers.CotangentClip(0.5, **k),
    "FrobeniusDense": lambda **k: layers.FrobeniusDense(5, 0.5, **k),
    "FullSort": layers.FullSort,
    "GroupSort": layers.GroupSort,
    "GroupSort4": lambda **k: layers.GroupSort(4, **k),
    "Householder": lambda **k: layers.HouseholderActivation(0.3, **k),
    "MaxMin": layers.MaxMin,
    "SpectralDense": lambda **k: layers.SpectralDense(5, **k),
    "SphereNormalization": lambda **k: layers.SphereNormalization(2.0, 0.5, **k),
}
every_layer = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def built(make, dtype="float64"):
    layer = make(dtype=dtype)
    layer.build((None, *SHAPE))
    return layer


def move_to_the_boundary(layer, rng):
    for v in layer.trainable_variables:
        v.assign(v.constraint(rng.normal(size=v.shape) * 100.0))


def awkward_samples(rng):
    """Generic, tied, zero, one-hot, tiny and huge samples."""
    normal = rng.normal(size=SHAPE)
    one = np.zeros(SHAPE)
    one[0, 0] = -1.0
    return [normal, normal / 10, np.zeros(SHAPE), np.ones(SHAPE), one, normal * 1e-30, one * 1e30]


@every_layer
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_computed_values_keep_the_bounds(make, dtype, vjp):
    rng = np.random.default_rng(0)
    layer = built(make, dtype)
    slack = 1.0 + layer.rounding(unit_roundoff(dtype))
    for _ in range(4):
        move_to_the_boundary(layer, rng)
        for sample in (s.astype(dtype) for s in awkward_samples(rng)):
            x = float(np.linalg.norm(sample.astype("float64")))
            y = keras.ops.convert_to_numpy(layer(sample[None]))[0].astype("float64")
            assert np.linalg.norm(y) <= layer.forward_bound(x) * slack
            u = rng.normal(size=y.shape).astype(dtype)
            g = float(np.linalg.norm(u.astype("float64")))
            to_x, to_weights = vjp(layer, sample, u)
            assert np.linalg.norm(to_x.astype("float64")) <= layer.backward_bound(x, g) * slack
            bounds = layer.parameter_bounds(x, g)
            for gradient, bound in zip(to_weights, bounds, strict=True):
                assert np.linalg.norm(gradient.astype("float64")) <= bound * slack


@every_layer
def test_jacobian_norm_is_below_the_bounds(make, operator_norm):
    rng = np.random.default_rng(1)
    layer = built(make)
    slack = 1.0 + layer.rounding(unit_roundoff("float64"))
    for sample in awkward_samples(rng):
        move_to_the_boundary(layer, rng)
        x = float(np.linalg.norm(sample))
        norm = operator_norm(layer, sample)
        assert norm <= layer.backward_bound(x, 1.0) * slack
        if not isinstance(layer, layers.CotangentClip):
            assert norm <= layer.lipschitz(x) * slack


@every_layer
def test_infinite_bounds_never_become_nan(make):
    layer = built(make)
    for x in (0.0, 1.0, math.inf):
        assert layer.forward_bound(x) >= 0.0
        assert layer.lipschitz(x) > 0.0
        for g in (0.0, 1.0, math.inf):
            assert layer.backward_bound(x, g) >= 0.0
            assert all(bound >= 0.0 for bound in layer.parameter_bounds(x, g))


@every_layer
def test_samples_do_not_mix(make):
    rng = np.random.default_rng(2)
    layer = built(make)
    batch = rng.normal(size=(5, *SHAPE)) * np.array([1e-3, 1, 1e30, 1, 10])[:, None, None]
    together = keras.ops.convert_to_numpy(layer(batch))
    for row, alone in zip(together, batch, strict=True):
        expected = keras.ops.convert_to_numpy(layer(alone[None]))[0]
        np.testing.assert_allclose(row, expected, rtol=1e-12)


@every_layer
def test_parameter_bounds_follow_trainable_variables(make):
    layer = built(make)
    assert len(layer.parameter_bounds(1.0, 1.0)) == len(layer.trainable_variables)
    layer.trainable = False
    assert layer.parameter_bounds(1.0, 1.0) == []


@every_layer
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_saved_model_comes_back_the_same(make, dtype, tmp_path):
    rng = np.random.default_rng(3)
    layer = make(dtype=dtype)
    head = [] if isinstance(layer, layers.BoundedInput) else [keras.Input(SHAPE, dtype=dtype)]
    model = keras.Sequential([*head, layer])
    assert model.built
    move_to_the_boundary(layer, rng)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    x = rng.normal(size=(4, *SHAPE))
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    loaded = again.layers[-1]
    assert type(loaded) is type(layer)
    assert loaded.get_config() == layer.get_config()
    assert loaded.lipschitz(1.0) == layer.lipschitz(1.0)
    assert loaded.parameter_bounds(1.0, 2.0) == layer.parameter_bounds(1.0, 2.0)


@every_layer
def test_unknown_sample_shape_is_refused_where_a_bound_needs_it(make):
    layer = make()
    for shape in [(None,), (None, 3, None)]:
        with pytest.raises(InvalidValue):
            layer.build(shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.ActivationClip(0.0),
        lambda: layers.BoundedBias(-1.0),
        lambda: layers.BoundedInput((2,), math.nan),
        lambda: layers.BoundedInput((None,), 1.0),
        lambda: layers.BoundedInput((), 1.0),
        lambda: layers.CotangentClip(math.inf),
        lambda: layers.FrobeniusDense(0),
        lambda: layers.FrobeniusDense(1, radius="1"),
        lambda: layers.GroupSort(0),
        lambda: layers.HouseholderActivation(math.nan),
        lambda: layers.SpectralDense(2.5),
        lambda: layers.SphereNormalization(1.0, 0.0),
        lambda: layers.SphereNormalization(1e20, 1e-20),
    ],
)
def test_bad_arguments_are_refused(make):
    with pytest.raises(InvalidValue):
        make()
