"""Rules of layers that draw random numbers in training.

Rows lie in uniformly random slots of a batch of fixed size, so what is drawn for the slots, or once
for all of them, is distributed alike whether or not one row is there. It must not depend on the
data, and each row must be changed on its own.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import keras

from lipdp.bounds.rules.base import LayerBounds, Rules, Weightless, enlarges
from lipdp.bounds.rules.pooling import check_channels_last
from lipdp.bounds.shapes import Shapes
from lipdp.errors import UnsupportedLayer


def _dropout(layer: Any, shapes: Shapes) -> LayerBounds:
    """Kept entries are divided by 1 - p; in inference it is the identity.

    Dropping whole channels, or the same entries of all rows, is no different.
    """
    _check_mask(layer, shapes)
    rate = float(layer.rate)
    if not 0.0 <= rate < 1.0:
        raise UnsupportedLayer(
            f"The rate of {layer.name!r} does not lie in [0, 1)",
            received=layer.rate,
            fix="Use a rate such as 0.5; a rate of 1 would drop everything in training",
        )
    return Weightless(gain=1.0 / (1.0 - rate), inference=1.0)


def _check_mask(layer: Any, shapes: Shapes) -> None:
    """A mask that is larger than a sample, or than a batch, makes copies of it."""
    if layer.noise_shape is None:
        return
    # None is the size of the axis itself, which is as harmless as 1.
    if enlarges([size or 1 for size in layer.noise_shape], (1, *shapes.input)):
        raise UnsupportedLayer(
            f"The noise_shape of {layer.name!r} is not that of one sample",
            received=layer.noise_shape,
            fix="Use None or 1 for the batch and None, 1 or its size for each other axis",
        )


def _flip(layer: Any, shapes: Shapes) -> LayerBounds:
    """Each image is flipped or not: a permutation of its entries. In inference the identity."""
    _check_images(layer, shapes)
    return Weightless(roundings=0)


def _augmentation(layer: Any, shapes: Shapes) -> LayerBounds:
    """Each image is transformed on its own, with random numbers of its own, by an unbounded map.

    Such a layer stands in front of a bounded input. In inference it is the identity.
    """
    _check_images(layer, shapes)
    return Weightless(gain=math.inf, inference=1.0, roundings=0)


def _check_images(layer: Any, shapes: Shapes) -> None:
    """Keras takes a batch of three axes for one image, whose rows are then records."""
    check_channels_last(layer)
    if len(shapes.input) != 3 or shapes.input != shapes.output:
        raise UnsupportedLayer(
            f"The layer {layer.name!r} takes a batch of anything but images for one image",
            received=(None, *shapes.input),
            fix="Give it records of shape (height, width, channels)",
        )


RULES: Rules = MappingProxyType(
    {
        keras.layers.Dropout: _dropout,
        keras.layers.SpatialDropout1D: _dropout,
        keras.layers.SpatialDropout2D: _dropout,
        keras.layers.SpatialDropout3D: _dropout,
        keras.layers.RandomFlip: _flip,
        keras.layers.RandomBrightness: _augmentation,
        keras.layers.RandomContrast: _augmentation,
        keras.layers.RandomErasing: _augmentation,
        keras.layers.RandomRotation: _augmentation,
        keras.layers.RandomShear: _augmentation,
        keras.layers.RandomTranslation: _augmentation,
        keras.layers.RandomZoom: _augmentation,
    }
)
