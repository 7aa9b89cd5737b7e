"""Architectures for images: convolutional, residual, and of mixed patches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import keras

from lipdp.errors import InvalidValue
from lipdp.layers import L2NormPooling2D, MaxMin, SpectralConv2D, SpectralDense
from lipdp.layers.base import sample_shape
from lipdp.layers.reshaping import SpaceToDepth
from lipdp.models.base import front
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


def averaged(
    shape: Sequence[int], layers: Sequence[keras.layers.Layer], dtype: str
) -> keras.layers.Layer:
    """``(x + f(x)) / 2`` as a model of its own, 1-Lipschitz if f is.

    Args:
        shape: Of one sample of x, which f must keep.
        layers: Of f, in order.
        dtype: Type of x.
    """
    x = keras.Input(tuple(shape), dtype=dtype)
    y = x
    for layer in layers:
        y = layer(y)
    return keras.Model(x, keras.layers.Average(dtype=dtype)([x, y]))


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


def mixer(
    num_features: int,
    num_outputs: int,
    *,
    image_shape: Sequence[int],
    patch_size: int = 4,
    depth: int = 2,
    channels: int = 64,
    token_width: int | None = None,
    channel_width: int | None = None,
    residual: bool = False,
    input_radius: float = 1.0,
    min_norm: float | None = None,
    dtype: str = "float32",
) -> list[keras.layers.Layer]:
    """Layers of a network that mixes the patches of an image, then the channels, in turn.

    A mixing is two near-orthogonal dense layers with a sort of pairs between them. Without
    residuals, and with the widths left out, their matrices are square and keep norms, forward and
    backward. Source: I. Tolstikhin et al., MLP-Mixer, NeurIPS 2021; without its normalisations.

    Args:
        num_features: Size of one row, a flattened image.
        num_outputs: Number of logits; 1 for binary labels.
        image_shape: Height, width and channels of the image.
        patch_size: Side of a square patch; must divide height and width. Leave an even number of
            patches if ``token_width`` is left out.
        depth: Number of pairs of a token mixing and a channel mixing.
        channels: Channels of a patch once it is embedded.
        token_width: Hidden units of a token mixing, an even number; None for as many as patches.
        channel_width: Hidden units of a channel mixing, an even number; None for ``channels``.
        residual: Whether each mixing f becomes ``(x + f(x)) / 2``.
        input_radius: Euclidean norm to which rows are clipped.
        min_norm: If given, rows are then normalised to the unit sphere, those of a smaller norm
            only scaled by ``1 / min_norm``.
        dtype: Type of computation and weights.

    Raises:
        InvalidValue: If an argument is outside its domain.
    """
    shape = shape_of_image(num_features, image_shape)
    front = image_front(shape, input_radius, min_norm, dtype)
    cut, (rows, columns, _) = squares(shape, count("patch_size", patch_size), dtype)
    tokens = rows * columns
    patches = [
        cut,
        keras.layers.Reshape((tokens, -1), dtype=dtype),
        SpectralDense(count("channels", channels), dtype=dtype),
    ]
    mixings: list[keras.layers.Layer] = []
    for _ in range(count("depth", depth)):
        over_tokens = [_turn(dtype), *_hidden(token_width, tokens, dtype), _turn(dtype)]
        for f in (over_tokens, _hidden(channel_width, channels, dtype)):
            mixings += [averaged((tokens, channels), f, dtype)] if residual else f
    head = SpectralDense(count("num_outputs", num_outputs), dtype=dtype)
    return [*front, *patches, *mixings, keras.layers.Flatten(dtype=dtype), head]


def _hidden(width: int | None, units: int, dtype: str) -> list[keras.layers.Layer]:
    return [
        SpectralDense(units if width is None else width, dtype=dtype),
        MaxMin(dtype=dtype),
        SpectralDense(units, dtype=dtype),
    ]


def _turn(dtype: str) -> keras.layers.Layer:
    return keras.layers.Permute((2, 1), dtype=dtype)
