"""A convolutional network."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from lipdp.layers import L2NormPooling2D, MaxMin, SpectralConv2D, SpectralDense
from lipdp.models._images import counts, image_front, shape_of_image
from lipdp.numerics import count


def convnet(
    num_features: int,
    num_outputs: int,
    *,
    image_shape: Sequence[int],
    filters: Sequence[int] = (32, 64),
    kernel_size: int = 3,
    pool_size: int = 2,
    widths: Sequence[int] = (),
    input_radius: float = 1.0,
    min_norm: float | None = None,
    dtype: str = "float32",
) -> list[keras.layers.Layer]:
    """Layers of convolutions, each with a sort of pairs and a pooling behind it, and a dense head.

    Args:
        num_features: Size of one row, a flattened image.
        num_outputs: Number of logits; 1 for binary labels.
        image_shape: Height, width and channels of the image.
        filters: Channels of each convolution, even numbers.
        kernel_size: Side of the convolutions' kernels.
        pool_size: Side of the windows of the poolings, of which a norm is left.
        widths: Units of each hidden dense layer in front of the head, even numbers.
        input_radius: Euclidean norm to which rows are clipped.
        min_norm: If given, rows are then normalised to the unit sphere, those of a smaller norm
            only scaled by ``1 / min_norm``.
        dtype: Type of computation and weights.

    Raises:
        InvalidValue: If an argument is outside its domain.
    """
    shape = shape_of_image(num_features, image_shape)
    layers = image_front(shape, input_radius, min_norm, dtype)
    for channels in counts("filters", filters):
        layers.append(SpectralConv2D(channels, kernel_size, dtype=dtype))
        layers.append(MaxMin(dtype=dtype))
        layers.append(L2NormPooling2D(pool_size, dtype=dtype))
    layers.append(keras.layers.Flatten(dtype=dtype))
    for width in counts("widths", widths):
        layers += [SpectralDense(width, dtype=dtype), MaxMin(dtype=dtype)]
    return [*layers, SpectralDense(count("num_outputs", num_outputs), dtype=dtype)]
