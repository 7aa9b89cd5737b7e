"""Exact Jacobians of layers that move, copy or drop entries."""

import math

import keras
import numpy as np
import pytest

from lipdp.bounds.rules.base import Shapes
from lipdp.bounds.rules.structure import RULES
from lipdp.errors import UnsupportedLayer

L = keras.layers
CALLS = {
    "Flatten": (L.Flatten, {}, (2, 3), 1),
    "Identity": (L.Identity, {}, (2, 3), 1),
    "Permute": (L.Permute, {"dims": (2, 1)}, (2, 3), 1),
    "Reshape": (L.Reshape, {"target_shape": (3, -1)}, (2, 3), 1),
    "ZeroPadding1D": (L.ZeroPadding1D, {"padding": (1, 2)}, (2, 3), 1),
    "ZeroPadding2D": (L.ZeroPadding2D, {"padding": ((1, 0), (0, 2))}, (2, 2, 2), 1),
    "ZeroPadding3D": (L.ZeroPadding3D, {"padding": 1}, (2, 1, 2, 2), 1),
    "Cropping1D": (L.Cropping1D, {"cropping": 1}, (4, 2), 1),
    "Cropping2D": (L.Cropping2D, {"cropping": ((1, 0), (0, 2))}, (3, 4, 2), 1),
    "Cropping3D": (L.Cropping3D, {"cropping": 1}, (3, 4, 3, 2), 1),
    "RepeatVector": (L.RepeatVector, {"n": 5}, (3,), 5),
    "UpSampling1D": (L.UpSampling1D, {"size": 3}, (2, 2), 3),
    "UpSampling2D": (L.UpSampling2D, {"size": (2, 3)}, (2, 1, 2), 6),
    "UpSampling3D": (L.UpSampling3D, {"size": (2, 1, 2)}, (2, 1, 2, 2), 4),
}


def rule_of(layer, sample):
    output = tuple(layer.compute_output_shape((1, *sample))[1:])
    return RULES[type(layer)](layer, Shapes((sample,), output))


@pytest.mark.parametrize("name", CALLS)
def test_norms_are_exact(name, jacobian):
    make, arguments, sample, copies = CALLS[name]
    layer = make(**arguments, dtype="float64")
    rule = rule_of(layer, sample)
    matrix = jacobian(layer, np.random.default_rng(0).normal(size=sample))
    assert set(np.unique(matrix)) <= {0.0, 1.0}
    assert np.linalg.norm(matrix, 2) == pytest.approx(math.sqrt(copies), rel=1e-14)
    for bound in (rule.lipschitz(1.0), rule.backward_bound(1.0, 1.0), rule.forward_bound(1.0)):
        assert bound == math.sqrt(copies)


def test_every_rule_is_tested():
    moving = {rule for kind, rule in RULES.items() if kind.__name__ in {"Reshape", "Cropping1D"}}
    moving |= {RULES[keras.layers.RepeatVector], RULES[keras.layers.UpSampling2D]}
    kinds = {kind for kind, rule in RULES.items() if rule in moving}
    assert {call[0] for call in CALLS.values()} == kinds and len(kinds) == 14


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos3"])
def test_interpolation_is_refused(interpolation):
    with pytest.raises(UnsupportedLayer, match="interpolates"):
        rule_of(L.UpSampling2D(interpolation=interpolation), (2, 2, 1))


@pytest.mark.parametrize("name", ["ZeroPadding2D", "Cropping3D", "UpSampling2D"])
def test_channels_first_is_refused(name):
    make, arguments, sample, _ = CALLS[name]
    layer = make(**arguments, data_format="channels_first")
    shape = tuple(4 for _ in sample)
    with pytest.raises(UnsupportedLayer, match="channels_last"):
        rule_of(layer, shape)
