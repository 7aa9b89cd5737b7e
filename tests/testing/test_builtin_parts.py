"""The harnesses, turned on every part of this package."""

import math

import keras
import pytest

from lipdp import layers, losses, projections
from lipdp.layers.base import LipschitzLayer
from lipdp.privacy import PoissonSampler
from lipdp.testing import check_layer, check_loss, check_projection, check_sampler

LAYERS = {
    "BoundedInput": (lambda **k: layers.BoundedInput((6,), radius=1.5, **k), (6,), 3.0),
    "ActivationClip": (lambda **k: layers.ActivationClip(0.7, **k), (6,), 2.0),
    "SphereNormalization": (lambda **k: layers.SphereNormalization(2.0, 0.5, **k), (6,), 1.0),
    "SpectralDense": (lambda **k: layers.SpectralDense(5, **k), (6,), 2.0),
    "SpectralDense at positions": (lambda **k: layers.SpectralDense(5, **k), (3, 4), 2.0),
    "FrobeniusDense": (lambda **k: layers.FrobeniusDense(3, radius=1.3, **k), (6,), 2.0),
    "BoundedBias": (lambda **k: layers.BoundedBias(0.5, **k), (4,), 1.0),
    "BoundedBias at positions": (lambda **k: layers.BoundedBias(0.5, **k), (5, 3), 1.0),
    "GroupSort": (lambda **k: layers.GroupSort(2, **k), (6,), 1.0),
    "GroupSort of 3": (lambda **k: layers.GroupSort(3, **k), (6,), 1.0),
    "MaxMin": (layers.MaxMin, (6,), 1.0),
    "FullSort": (layers.FullSort, (5,), 1.0),
    "HouseholderActivation": (layers.HouseholderActivation, (6,), 1.0),
    "CotangentClip": (lambda **k: layers.CotangentClip(0.4, **k), (6,), 1.0),
    "ReLU": (keras.layers.ReLU, (6,), 1.0),
    "leaky ReLU": (lambda **k: keras.layers.ReLU(negative_slope=1.7, **k), (6,), 1.0),
    "tanh": (lambda **k: keras.layers.Activation("tanh", **k), (6,), 9.0),
    "Flatten": (keras.layers.Flatten, (2, 3), 1.0),
    "Reshape": (lambda **k: keras.layers.Reshape((6,), **k), (2, 3), 1.0),
}


QUICK = {"MaxMin", "TemperedBinaryCrossentropy", "MulticlassHinge"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(n, dtype, marks=[] if n in QUICK and dtype == "float32" else pytest.mark.slow)
        for n in LAYERS
        for dtype in ("float32", "float64")
    ],
)
def test_layer(name, dtype):
    make, shape, radius = LAYERS[name]
    tightness = check_layer(make(dtype=dtype), shape, radius)
    # Each bound is attained, so none is needlessly loose.
    assert tightness.best > 0.99


def test_no_layer_is_forgotten():
    public = {n for n in layers.__all__ if issubclass(getattr(layers, n), LipschitzLayer)}
    assert public - {"LipschitzLayer", "NonExpansiveLayer"} <= {n.split()[0] for n in LAYERS}


LOSSES = {
    "TemperedCrossentropy": (losses.TemperedCrossentropy(inverse_temperature=4.0), 5),
    "TemperedBinaryCrossentropy": (losses.TemperedBinaryCrossentropy(inverse_temperature=4.0), 1),
    "MulticlassHinge": (losses.MulticlassHinge(margin=0.3), 4),
    "BinaryHinge": (losses.BinaryHinge(margin=0.3), 1),
    "KantorovichRubinstein": (losses.KantorovichRubinstein(), 1),
    "KantorovichRubinstein of 3": (losses.KantorovichRubinstein(), 3),
    "HKR": (losses.HKR(alpha=3.0, margin=0.5), 1),
    "HKR of 3": (losses.HKR(alpha=3.0, margin=0.5), 3),
    "CosineLoss": (losses.CosineLoss(min_norm=0.5), 3),
    "MeanAbsoluteError": (losses.MeanAbsoluteError(), 3),
    "ClippedLoss": (losses.ClippedLoss(losses.MulticlassHinge(margin=0.3), max_norm=0.5), 4),
}


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        pytest.param(n, b, marks=[] if n in QUICK and b == 3.0 else pytest.mark.slow)
        for n in LOSSES
        for b in (0.5, 3.0, math.inf)
    ],
)
def test_loss(name, bound):
    loss, outputs = LOSSES[name]
    assert check_loss(loss, outputs, bound).best > 0.8


def test_no_loss_is_forgotten():
    public = set(losses.__all__) - {"LOSSES", "LipschitzLoss"}
    assert public <= {n.split()[0] for n in LOSSES}


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((6, 4), "float32"),
        ((1, 5), "float64"),
        *(
            pytest.param(shape, dtype, marks=pytest.mark.slow)
            for shape in [(4, 6), (5, 1), (40, 30)]
            for dtype in ("float32", "float64")
        ),
    ],
)
@pytest.mark.parametrize(
    "projection",
    [
        projections.BjorckProjection(),
        projections.SpectralProjection(radius=0.7),
        projections.FrobeniusProjection(radius=1.3),
        projections.L2Ball(0.5),
    ],
    ids=lambda p: type(p).__name__,
)
def test_projection(projection, shape, dtype):
    assert check_projection(projection, shape, dtype=dtype).best > 0.9


def test_sampler():
    assert check_sampler(PoissonSampler(100, 20, seed=0)).draws >= 2000
