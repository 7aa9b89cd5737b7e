"""Residual blocks that grow no norm."""

from __future__ import annotations

from collections.abc import Sequence

import keras


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
