"""A residual convolutional network."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from lipdp.layers import MaxMin, SpectralConv2D, SpectralDense
from lipdp.models._images import counts, image_front, shape_of_image, squares
from lipdp.models._residual import averaged
from lipdp.numerics import count


def resnet(
    num_features: int,
    num_outputs: int,
    *,
    image_shape: Sequence[int],
    filters: Sequence[int] = (32, 64),
    blocks: int = 1,
    kernel_size: int = 3,
    input_radius: float = 1.0,
    min_norm: float | None = None,
    dtype: str = "float32",
) -> list[keras.layers.Layer]:
    """Layers of stages that halve an image, each with residual blocks ``(x + f(x)) / 2``.

    A stage moves each 2x2 square of pixels into the channels, mixes these with a near-orthogonal
    dense layer, and so loses nothing by itself; f is a convolution and a sort of pairs. Averages
    keep norms from growing, where sums would double the bounds of each block.

    Args:
        num_features: Size of one row, a flattened image.
        num_outputs: Number of logits; 1 for binary labels.
        image_shape: Height, width and channels of the image, height and width divisible by two as
            often as there are stages.
        filters: Channels of each stage, even numbers.
        blocks: Residual blocks a stage.
        kernel_size: Side of the convolutions' kernels.
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
        cut, (height, width, _) = squares(shape, 2, dtype)
        shape = (height, width, channels)
        layers += [cut, SpectralDense(channels, dtype=dtype)]
        for _ in range(count("blocks", blocks)):
            f = [SpectralConv2D(channels, kernel_size, dtype=dtype), MaxMin(dtype=dtype)]
            layers.append(averaged(shape, f, dtype))
    layers.append(keras.layers.Flatten(dtype=dtype))
    return [*layers, SpectralDense(count("num_outputs", num_outputs), dtype=dtype)]
