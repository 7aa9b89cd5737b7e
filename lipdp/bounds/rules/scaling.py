"""Rules of layers with fixed factors."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from lipdp.bounds.rules.base import LayerBounds, Rules, Weightless
from lipdp.bounds.shapes import Shapes
from lipdp.errors import UnsupportedLayer


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


RULES: Rules = MappingProxyType({keras.layers.Rescaling: _rescaling})
