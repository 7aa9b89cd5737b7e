"""Rules of layers that move, merge, scale or drop entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from lipdp.bounds.rules.base import (
    LayerBounds,
    MergeBounds,
    MergeRules,
    Rules,
    Shapes,
    Weightless,
    enlarges,
)
from lipdp.bounds.rules.pooling import check_channels_last
from lipdp.errors import UnsupportedLayer
from lipdp.numerics import gamma, times


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


@dataclass(frozen=True)
class WeightedSum:
    """``sum_i w_i t_i`` of equal shapes: triangle inequality forward, ``w_i`` to each input.

    The computed sum is off by at most ``gamma_m sum |w_i t_i|`` an entry.
    """

    weights: tuple[float, ...]
    joint: bool = False

    def forward_bound(self, xs: Sequence[float]) -> float:
        return math.fsum(times(w, x) for w, x in zip(self.weights, xs, strict=True))

    def jacobians(self, xs: Sequence[float]) -> list[float]:
        return list(self.weights)

    def rounding(self, unit: float) -> float:
        return gamma(len(self.weights) + 3, unit)


@dataclass(frozen=True)
class Joined:
    """Tensors side by side: squares of norms add, and so do those of the cotangent's parts."""

    inputs: int
    joint: bool = True

    def forward_bound(self, xs: Sequence[float]) -> float:
        return math.hypot(*xs)

    def jacobians(self, xs: Sequence[float]) -> list[float]:
        return [1.0] * self.inputs

    def rounding(self, unit: float) -> float:
        return gamma(2, unit)


@dataclass(frozen=True)
class Product:
    """Entrywise product, shapes broadcast.

    ``||a b|| <= max |b| ||a|| <= ||a|| ||b||``. The gradient of a sums ``u b`` over the positions
    at which an entry of a is repeated, at most ``||u|| ||b||`` by Cauchy-Schwarz.
    """

    terms: int
    joint: bool = False

    def forward_bound(self, xs: Sequence[float]) -> float:
        return times(*xs)

    def jacobians(self, xs: Sequence[float]) -> list[float]:
        return [times(1.0, *xs[:i], *xs[i + 1 :]) for i in range(len(xs))]

    def rounding(self, unit: float) -> float:
        return gamma(self.terms, unit)


def _add(layer: Any, shapes: Shapes) -> MergeBounds:
    _check_equal(layer, shapes)
    return WeightedSum((1.0,) * len(shapes.inputs))


def _average(layer: Any, shapes: Shapes) -> MergeBounds:
    _check_equal(layer, shapes)
    return WeightedSum((1.0 / len(shapes.inputs),) * len(shapes.inputs))


def _concatenate(layer: Any, shapes: Shapes) -> MergeBounds:
    if sum(math.prod(shape) for shape in shapes.inputs) != shapes.size:
        raise UnsupportedLayer(
            f"The layer {layer.name!r} concatenates batches and not samples",
            received=layer.axis,
            fix="Use axis=-1, or any axis but that of the batch",
        )
    return Joined(len(shapes.inputs))


def _multiply(layer: Any, shapes: Shapes) -> MergeBounds:
    _check_ranks(layer, shapes)
    return Product(len(shapes.inputs) + shapes.size + 2)


def _check_equal(layer: Any, shapes: Shapes) -> None:
    if any(shape != shapes.output for shape in shapes.inputs):
        raise UnsupportedLayer(
            f"The layer {layer.name!r} repeats an input of a smaller shape",
            received=shapes.inputs,
            fix="Give it inputs of one shape (repeat the small one with RepeatVector or "
            "UpSampling2D, whose bound is known)",
        )


def _check_ranks(layer: Any, shapes: Shapes) -> None:
    """Keras decides at the first call whether samples get axes in front to make ranks equal.

    Without them, (n, K) and (n, 1, K) broadcast to (n, n, K), every row with every other one.
    """
    ranks = [len(shape) for shape in shapes.inputs]
    if len(set(ranks)) > 1 and not getattr(layer, "_reshape_required", False):
        raise UnsupportedLayer(
            f"The shared layer {layer.name!r} was made for inputs of one rank and would mix the "
            "samples of a batch",
            received=shapes.inputs,
            fix="Use a layer of its own for these inputs",
        )


MERGE_RULES: MergeRules = MappingProxyType(
    {
        keras.layers.Add: _add,
        keras.layers.Average: _average,
        keras.layers.Concatenate: _concatenate,
        keras.layers.Multiply: _multiply,
        keras.layers.Subtract: _add,
    }
)


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


def _rescaling(layer: Any, shapes: Shapes) -> LayerBounds:
    """``scale x + offset`` with the greatest factor; the offset is repeated over the sample."""
    scale, offset = (_repeated(layer, v, shapes.input) for v in (layer.scale, layer.offset))
    gain = float(np.max(np.abs(scale)))
    return Weightless(gain=gain, inference=gain, offset=float(np.linalg.norm(offset)))


def _repeated(layer: Any, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A number, or one for each channel, over the whole sample."""
    array = as_computed(value)
    usable = array.ndim == 0 or (array.shape == shape[-1:] and _channels_last())
    if not usable or not np.all(np.isfinite(array)):
        raise UnsupportedLayer(
            f"The factors of Rescaling {layer.name!r} have no proved bound",
            received=value,
            fix="Use one finite number, or one for each channel of channels_last data",
        )
    return np.broadcast_to(array, shape)


def _channels_last() -> bool:
    return bool(keras.config.image_data_format() == "channels_last")


def as_computed(value: Any) -> np.ndarray:
    """Absolute values, rounded up: TensorFlow keeps them in float32, in a float64 layer too."""
    with np.errstate(over="ignore"):
        single = np.asarray(value, dtype="float32").astype("float64")
    return np.maximum(np.abs(np.asarray(value, dtype="float64")), np.abs(single))


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
        keras.layers.Rescaling: _rescaling,
    }
)
