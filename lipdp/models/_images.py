"""What the architectures for images share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import keras

from lipdp.errors import InvalidValue
from lipdp.layers._shapes import sample_shape
from lipdp.layers.space_to_depth import SpaceToDepth
from lipdp.models._front import front
from lipdp.numerics import count


def image_front(
    shape: tuple[int, int, int], input_radius: float, min_norm: float | None, dtype: str
) -> list[keras.layers.Layer]:
    """The front end of every architecture, on flat rows, then the fold to images."""
    flat = front(math.prod(shape), input_radius, min_norm, dtype)
    return [*flat, keras.layers.Reshape(shape, dtype=dtype)]


def shape_of_image(num_features: int, image_shape: Sequence[int]) -> tuple[int, int, int]:
    """Height, width and channels of the image that a row is.

    Raises:
        InvalidValue: If the shape is none of an image, or holds another number of features.
    """
    sizes = counts("image_shape", image_shape)
    if len(sizes) != 3 or math.prod(sizes) != count("num_features", num_features):
        raise InvalidValue(
            f"image_shape must be (height, width, channels) of {num_features} features",
            received=tuple(image_shape),
            fix="Give the shape that each row had before it was flattened",
        )
    return sizes[0], sizes[1], sizes[2]


def squares(shape: tuple[int, ...], size: int, dtype: str) -> tuple[SpaceToDepth, tuple[int, ...]]:
    """A layer that moves squares of pixels into the channels, and the shape behind it.

    Raises:
        InvalidValue: If the size does not divide both sides.
    """
    layer = SpaceToDepth(size, dtype=dtype)
    layer.build((None, *shape))
    return layer, sample_shape(layer.compute_output_shape((None, *shape)))


def counts(name: str, values: Sequence[int]) -> list[int]:
    """A list of integers of at least 1.

    Raises:
        InvalidValue: If it is none.
    """
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidValue(f"{name} must be a list of integers", received=values)
    return [count(f"{name}[{i}]", value) for i, value in enumerate(values)]
