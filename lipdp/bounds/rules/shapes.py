"""Rules of layers that move, copy or drop entries."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import keras

from lipdp.bounds.rules.base import LayerBounds, Rules, Weightless
from lipdp.bounds.rules.pooling import check_channels_last
from lipdp.bounds.shapes import Shapes
from lipdp.errors import UnsupportedLayer


def _same(layer: Any, shapes: Shapes) -> LayerBounds:
    """A permutation of the entries."""
    return Weightless(roundings=0)


def _part(layer: Any, shapes: Shapes) -> LayerBounds:
    """The entries among zeros, or some of them: an isometry or its transpose."""
    check_channels_last(layer)
    return Weightless(roundings=0)


def _copies(layer: Any, shapes: Shapes) -> LayerBounds:
    """Each entry n times: ``sqrt(n)``, and a sum of n entries backward."""
    check_channels_last(layer)
    copies = shapes.size // math.prod(shapes.input)
    gain = math.sqrt(copies)
    return Weightless(gain=gain, inference=gain, roundings=copies + 8)


def _nearest(layer: Any, shapes: Shapes) -> LayerBounds:
    if layer.interpolation != "nearest":
        raise UnsupportedLayer(
            f"The layer {layer.name!r} interpolates, which has no proved bound",
            received=layer.interpolation,
            fix="Use interpolation='nearest'",
        )
    return _copies(layer, shapes)


RULES: Rules = MappingProxyType(
    {
        keras.layers.Flatten: _same,
        keras.layers.Identity: _same,
        keras.layers.Permute: _same,
        keras.layers.Reshape: _same,
        keras.layers.ZeroPadding1D: _part,
        keras.layers.ZeroPadding2D: _part,
        keras.layers.ZeroPadding3D: _part,
        keras.layers.Cropping1D: _part,
        keras.layers.Cropping2D: _part,
        keras.layers.Cropping3D: _part,
        keras.layers.RepeatVector: _copies,
        keras.layers.UpSampling1D: _copies,
        keras.layers.UpSampling2D: _nearest,
        keras.layers.UpSampling3D: _copies,
    }
)
