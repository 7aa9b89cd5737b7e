"""Bounds of models with adaptive clips, against gradients at thresholds all over their ranges."""

import itertools

import keras
import numpy as np
import pytest

from lipdp.bounds import gradient_bounds, lipschitz_constant
from lipdp.errors import UnboundedGradient
from lipdp.layers import BoundedBias, BoundedInput, CotangentClip, MaxMin, SpectralDense
from lipdp.layers.clipping import AdaptiveCotangentClip, at_threshold
from lipdp.losses import MulticlassHinge
from lipdp.testing.base import push
from lipdp.testing.check_model import ModelProbe

LOSS = MulticlassHinge(margin=10.0)
FACTORS = (1.0, 4.0, 40.0)


def adaptive(minimum):
    return AdaptiveCotangentClip(2.0 * minimum, minimum=minimum, maximum=40.0 * minimum)


def at_the_logits():
    layers = [SpectralDense(4), BoundedBias(0.5), MaxMin(), SpectralDense(3), adaptive(0.03)]
    return keras.Sequential([BoundedInput((4,), 1.0), *layers])


def at_two_inner_layers():
    first = [SpectralDense(4), adaptive(0.01), MaxMin()]
    second = [SpectralDense(4), BoundedBias(0.5), adaptive(0.03), SpectralDense(3)]
    return keras.Sequential([BoundedInput((4,), 1.0), *first, *second])


def on_branches():
    """Cotangents of two adaptive clips, a plain clip and none meet."""
    inputs = keras.Input((4,))
    x = SpectralDense(4)(BoundedInput((4,), 1.0)(inputs))
    one = adaptive(0.01)(SpectralDense(4)(x))
    two = adaptive(0.02)(MaxMin()(x))
    joined = keras.layers.Concatenate()([one, two, CotangentClip(0.05)(x)])
    return keras.Model(inputs, SpectralDense(3)(joined))


MODELS = {f.__name__: f for f in (at_the_logits, at_two_inner_layers, on_branches)}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


def clips_of(model):
    return [a for a in model._flatten_layers() if isinstance(a, AdaptiveCotangentClip)]


def bounds_at(model, thresholds):
    with at_threshold(clips_of(model), thresholds):
        return np.asarray(gradient_bounds(model, LOSS).parameters)


def dependence(model):
    """Shape (variables, clips): whether a bound moves with a threshold."""
    clips, base = clips_of(model), np.asarray(gradient_bounds(model, LOSS).parameters)
    moved = []
    for clip in clips:
        with at_threshold([clip], clip.maximum):
            moved.append(np.asarray(gradient_bounds(model, LOSS).parameters) > base)
    return np.stack(moved, axis=1)


def rows(rng):
    x = rng.normal(size=(8, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[5] *= 1e-3
    x[6], x[7] = np.nan, 1e38
    return x


@pytest.mark.slow
@every_model
def test_gradients_keep_the_bounds_at_every_threshold(make):
    model, rng = make(), np.random.default_rng(0)
    clips, probe = clips_of(model), ModelProbe(model, LOSS)
    base, depends = np.asarray(gradient_bounds(model, LOSS).parameters), dependence(model)
    best = np.zeros(len(base))
    for factors in itertools.product(FACTORS, repeat=len(clips)):
        thresholds = [f * c.minimum for f, c in zip(factors, clips, strict=True)]
        exact = bounds_at(model, thresholds)
        scaled = base * np.max(np.where(depends, factors, 1.0), axis=1)
        # The host rounds both; the slack of the engine covers that.
        assert np.all(exact <= scaled * (1.0 + 1e-14))
        for _ in range(4):
            push(probe.variables, rng)
            for clip, threshold in zip(clips, thresholds, strict=True):
                clip.threshold.assign(threshold)
            for i, row in enumerate(rows(rng)):
                _, found = probe.gradients([row], np.array([i % 3]))
                norms = np.array([np.linalg.norm(g.astype("float64")) for g in found])
                assert np.all(norms <= exact) and np.all(norms <= scaled)
                best = np.maximum(best, norms / exact)
    counts = [i for i, v in enumerate(probe.variables) if v.name == "threshold"]
    assert np.all(best[counts] > 0.99)
    # Each clip is attained: some variable behind it gets nearly all that it lets pass.
    assert all(np.max(best[depends[:, i]]) > 0.9 for i in range(len(clips)))


@every_model
def test_forward_constants_do_not_see_the_thresholds(make):
    model = make()
    before = lipschitz_constant(model)
    for clip in clips_of(model):
        clip.threshold.assign(clip.maximum)
    with at_threshold(clips_of(model), 1.0):
        assert lipschitz_constant(model) == before


def test_each_variable_depends_on_the_nearest_clip():
    # Kernel, threshold, kernel, bias, threshold, kernel.
    expected = [[1, 0], [0, 0], [0, 1], [0, 1], [0, 0], [0, 0]]
    assert dependence(at_two_inner_layers()).astype(int).tolist() == expected


def test_bounds_scale_with_the_nearest_threshold():
    model = at_two_inner_layers()
    base = bounds_at(model, [0.01, 0.03])
    np.testing.assert_allclose(bounds_at(model, [0.04, 0.03]) / base, [4, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(bounds_at(model, [0.01, 0.3]) / base, [1, 1, 10, 10, 1, 1])
    np.testing.assert_allclose(base[[1, 4]], 1.0, rtol=1e-5)


def test_a_layer_used_twice_counts_twice():
    inputs, clip = keras.Input((4,)), adaptive(0.01)
    x = SpectralDense(4)(BoundedInput((4,), 1.0)(inputs))
    model = keras.Model(inputs, keras.layers.Add()([clip(MaxMin()(x)), clip(x)]))
    bounds = gradient_bounds(model, LOSS).parameters
    assert bounds[1] == pytest.approx(2.0, rel=1e-5)
    assert bounds[0] == pytest.approx(0.02, rel=1e-5)
    _, found = ModelProbe(model, LOSS).gradients([np.eye(4)[0]], np.array([0]))
    assert float(found[1]) == 2.0
    assert np.linalg.norm(found[0]) <= 2.0 * bounds[0]


def test_a_frozen_layer_bounds_at_its_present_threshold():
    model = at_two_inner_layers()
    first = clips_of(model)[0]
    first.threshold.assign(0.2)
    first.trainable = False
    bounds = gradient_bounds(model, LOSS).parameters
    # The cotangent that reaches it has norm at most 0.03, the minimum of the other clip.
    np.testing.assert_allclose(bounds[:3], [0.03, 0.03, 0.015 * 2], rtol=1e-4)
    assert len(bounds) == 5


def test_a_bound_may_be_finite_at_the_minimum_alone():
    clip = AdaptiveCotangentClip(1.0, minimum=1e-3, maximum=1e30)
    model = keras.Sequential([BoundedInput((4,), 1.0), SpectralDense(3), clip])
    assert gradient_bounds(model, LOSS).parameters[0] == pytest.approx(1e-3, rel=1e-5)
    with at_threshold([clip], clip.maximum), pytest.raises(UnboundedGradient):
        gradient_bounds(model, LOSS)
