"""The first layers of every architecture."""

from __future__ import annotations

import keras

from lipdp.layers import BoundedInput, SphereNormalization
from lipdp.numerics import count


def front(
    num_features: int, input_radius: float, min_norm: float | None, dtype: str
) -> list[keras.layers.Layer]:
    """The input ball and, if a least norm is given, the normalisation to the unit sphere."""
    shape = (count("num_features", num_features),)
    layers: list[keras.layers.Layer] = [BoundedInput(shape, radius=input_radius, dtype=dtype)]
    if min_norm is not None:
        layers.append(SphereNormalization(radius=1.0, min_norm=min_norm, dtype=dtype))
    return layers
