"""The layers of this package."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
from keras import ops

from lipdp import layers as ls
from lipdp.layers.activations import AbsoluteValue
from lipdp.layers.affine import BoundedScale
from lipdp.layers.clipping import AdaptiveCotangentClip
from lipdp.layers.normalization import Centering, CenterNorm
from lipdp.testing.parts.base import LayerPart

_LINE, _IMAGE, _VOLUME = (6, 2), (4, 4, 2), (3, 2, 3, 2)


def _part(
    name: str, make: Callable[..., Any], shape: tuple[int, ...], least: float = 0.8
) -> LayerPart:
    return LayerPart(name, make, shape, 2.0, least=least)


CONVOLUTIONS = (
    _part("SpectralConv1D", partial(ls.SpectralConv1D, 3, 3), _LINE),
    _part("SpectralConv2D", partial(ls.SpectralConv2D, 2, 3), _IMAGE),
    _part("SpectralConv2D valid", partial(ls.SpectralConv2D, 2, 2, padding="valid"), _IMAGE),
    _part(
        "SpectralConv2D without overlap",
        partial(ls.SpectralConv2D, 3, 2, strides=2, padding="valid"),
        _IMAGE,
        0.99,
    ),
    _part("SpectralConv2D circular", partial(ls.SpectralConv2D, 2, 3, padding="circular"), _IMAGE),
    _part(
        "SpectralConv2D circular, strided",
        partial(ls.SpectralConv2D, 2, (2, 3), strides=(2, 1), padding="circular"),
        (4, 3, 1),
    ),
    _part("SpectralConv2D strided", partial(ls.SpectralConv2D, 2, 3, strides=2), (5, 4, 1)),
    _part("SpectralConv2D dilated", partial(ls.SpectralConv2D, 2, 2, dilation_rate=(1, 2)), _IMAGE),
    _part("SpectralConv2D in groups", partial(ls.SpectralConv2D, 4, 2, groups=2), _IMAGE),
    _part("SpectralConv2D of one tap", partial(ls.SpectralConv2D, 3, 1), (3, 3, 2), 0.99),
    _part("SpectralConv3D", partial(ls.SpectralConv3D, 2, 2), _VOLUME),
    _part("SpectralDepthwiseConv2D", partial(ls.SpectralDepthwiseConv2D, 3), _IMAGE),
    _part(
        "SpectralDepthwiseConv2D of two multipliers",
        partial(ls.SpectralDepthwiseConv2D, 2, 2, strides=2, padding="valid"),
        _IMAGE,
    ),
    _part("SpectralConv1DTranspose", partial(ls.SpectralConv1DTranspose, 3, 3), _LINE),
    _part(
        "SpectralConv2DTranspose", partial(ls.SpectralConv2DTranspose, 2, 2, strides=2), (3, 2, 2)
    ),
    _part(
        "SpectralConv2DTranspose valid",
        partial(ls.SpectralConv2DTranspose, 2, 3, strides=2, padding="valid"),
        (2, 2, 2),
    ),
    _part("SpectralConv3DTranspose", partial(ls.SpectralConv3DTranspose, 2, 2), (2, 2, 2, 2)),
)


def _at_its_threshold(layer: AdaptiveCotangentClip) -> AdaptiveCotangentClip:
    """Bounds hold up to the least threshold: another layer, whose least one is the present one."""
    present = float(ops.convert_to_numpy(layer.radius()))
    stated = AdaptiveCotangentClip(present, minimum=present, dtype=layer.dtype)
    stated.build(layer.get_build_config()["input_shape"])
    return stated


def _frozen(dtype: str) -> ls.FrozenFeatures:
    inputs = keras.Input((6,), dtype=dtype)
    outputs = keras.layers.Dense(3, "relu", dtype=dtype)(inputs)
    return ls.FrozenFeatures(keras.Model(inputs, outputs), dtype=dtype)


LAYERS = (
    LayerPart("BoundedInput", partial(ls.BoundedInput, (6,), radius=1.5), (6,), 3.0),
    LayerPart("ActivationClip", partial(ls.ActivationClip, 0.7), (6,), 2.0),
    LayerPart("SphereNormalization", partial(ls.SphereNormalization, 2.0, 0.5), (6,), 1.0),
    LayerPart("CotangentClip", partial(ls.CotangentClip, 0.4), (6,), 1.0),
    LayerPart(
        "AdaptiveCotangentClip",
        partial(AdaptiveCotangentClip, 0.4, minimum=0.2, maximum=0.9),
        (6,),
        1.0,
        rule=_at_its_threshold,
    ),
    LayerPart("SpectralDense", partial(ls.SpectralDense, 5), (6,), 2.0),
    LayerPart("SpectralDense at positions", partial(ls.SpectralDense, 5), (3, 4), 2.0),
    LayerPart("FrobeniusDense", partial(ls.FrobeniusDense, 3, radius=1.3), (6,), 2.0),
    LayerPart("BoundedBias", partial(ls.BoundedBias, 0.5), (4,), 1.0),
    LayerPart("BoundedBias at positions", partial(ls.BoundedBias, 0.5), (5, 3), 1.0),
    LayerPart("BoundedEmbedding", partial(ls.BoundedEmbedding, 6, 3, 1.5), (5,), 1.0, ids=6),
    LayerPart("BoundedEmbedding of one id", partial(ls.BoundedEmbedding, 4, 3), (1,), 1.0, ids=4),
    LayerPart("GroupSort", partial(ls.GroupSort, 2), (6,), 1.0),
    LayerPart("GroupSort of 3", partial(ls.GroupSort, 3), (6,), 1.0),
    LayerPart("MaxMin", ls.MaxMin, (6,), 1.0),
    LayerPart("FullSort", ls.FullSort, (5,), 1.0),
    LayerPart("HouseholderActivation", ls.HouseholderActivation, (6,), 1.0),
    LayerPart("AbsoluteValue", AbsoluteValue, (6,), 1.0),
    LayerPart("BoundedScale", partial(BoundedScale, 1.5), (4,), 2.0),
    LayerPart("BoundedScale at positions", partial(BoundedScale, 0.8), (3, 2), 2.0),
    LayerPart("Centering", Centering, (5,), 2.0),
    LayerPart("Centering of positions", partial(Centering, axis=1), (3, 2), 2.0),
    LayerPart("CenterNorm", CenterNorm, (2, 3), 2.0),
    LayerPart("SpaceToDepth", partial(ls.SpaceToDepth, 2), (4, 4, 1), 1.0),
    LayerPart("DepthToSpace", partial(ls.DepthToSpace, 2), (2, 2, 4), 1.0),
    LayerPart("L2NormPooling1D", ls.L2NormPooling1D, (6, 2), 2.0),
    LayerPart("L2NormPooling2D", ls.L2NormPooling2D, (4, 4, 1), 2.0),
    LayerPart(
        "L2NormPooling2D of overlapping windows",
        partial(ls.L2NormPooling2D, 3, strides=2, padding="same"),
        (4, 5, 1),
        2.0,
    ),
    LayerPart("L2NormPooling3D", ls.L2NormPooling3D, (2, 2, 2, 2), 2.0),
    LayerPart("GlobalL2NormPooling", ls.GlobalL2NormPooling, (3, 2, 2), 2.0),
    LayerPart("ScaledAveragePooling1D", ls.ScaledAveragePooling1D, (6, 2), 2.0),
    LayerPart("ScaledAveragePooling2D", ls.ScaledAveragePooling2D, (4, 4, 1), 2.0),
    LayerPart(
        "ScaledAveragePooling2D of overlapping windows",
        partial(ls.ScaledAveragePooling2D, 3, strides=1, padding="same"),
        (4, 3, 1),
        2.0,
    ),
    LayerPart("ScaledAveragePooling3D", ls.ScaledAveragePooling3D, (2, 2, 2, 2), 2.0),
    LayerPart("ScaledGlobalAveragePooling", ls.ScaledGlobalAveragePooling, (3, 2, 2), 2.0),
    LayerPart("Scattering2D", partial(ls.Scattering2D, 1, 2, 1), (4, 4, 1), 2.0, least=0.75),
    LayerPart("Scattering2D to order 2", partial(ls.Scattering2D, 2, 2), (5, 4, 2), 2.0, least=0.5),
    LayerPart("FrozenFeatures", _frozen, (6,), 1.0, least=-1.0),
    *CONVOLUTIONS,
)
