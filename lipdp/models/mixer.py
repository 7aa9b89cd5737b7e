"""An MLP-Mixer of near-orthogonal layers."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from lipdp.layers import MaxMin, SpectralDense
from lipdp.models._images import image_front, shape_of_image, squares
from lipdp.models._residual import averaged
from lipdp.numerics import count


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
