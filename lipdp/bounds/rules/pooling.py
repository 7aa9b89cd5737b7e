"""Rules of poolings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras

from lipdp.bounds.rules.base import FiniteInput, LayerBounds, Rules, Shapes, Weightless
from lipdp.errors import UnsupportedLayer
from lipdp.layers.windows import (
    Windows,
    coverage,
    padded_sum_norm,
    real_mean_norm,
    windows_of,
)
from lipdp.numerics import times


def check_channels_last(layer: Any) -> None:
    """Refuses images with channels first.

    Raises:
        UnsupportedLayer: If the layer reads them.
    """
    if getattr(layer, "data_format", "channels_last") != "channels_last":
        raise UnsupportedLayer(
            f"The layer {layer.name!r} has a proved bound for channels_last only",
            received=layer.data_format,
            fix="Use data_format='channels_last'",
        )


def _windows(layer: Any, shapes: Shapes) -> tuple[Windows, ...]:
    check_channels_last(layer)
    return windows_of(shapes.input[:-1], layer.pool_size, layer.strides, layer.padding)


@dataclass(frozen=True)
class _Maxima(Weightless):
    """A selection of entries whose derivative may select several where they tie.

    Attributes:
        ties: Bound of the derivative that is returned, at least ``gain``.
    """

    ties: float = 1.0

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.ties, g)


def _max_pooling(layer: Any, shapes: Shapes) -> LayerBounds:
    """The derivative selects one entry of each window, at ties and NaN too: ``sqrt(kappa)``.

    A matrix with one 1 in each row has the square root of its greatest column sum as its norm, and
    a position is selected at most by the kappa windows that read it. Each window holds an entry, so
    neither padding by minus infinity nor, as on PyTorch, by the border changes its maximum. Between
    two inputs, ``|max a - max b| <= max |a - b|``.

    For volumes, kernels of TensorFlow send the whole cotangent to every entry that equals the
    maximum. That matrix is at most, entry by entry, the one that sums each window.
    """
    axes = _windows(layer, shapes)
    kappa = coverage(axes)
    gain = ties = math.sqrt(kappa)
    if len(axes) == 3 and keras.backend.backend() == "tensorflow":
        ties = padded_sum_norm(axes)
    return _Maxima(gain=gain, inference=gain, roundings=kappa + 8, ties=ties)


def _average_pooling(layer: Any, shapes: Shapes) -> LayerBounds:
    """The mean of the elements of each window; see ``real_mean_norm``.

    On PyTorch, Keras repeats the border along all axes as soon as the padding of one is uneven. All
    entries of the matrix are positive: a rounding of ``gamma_n`` an entry is one of the norm.
    """
    axes = _windows(layer, shapes)
    uneven = any(axis.total_padding % 2 for axis in axes)
    gain = real_mean_norm(axes, replicate=uneven and keras.backend.backend() == "torch")
    taps = math.prod(axis.window for axis in axes)
    return Weightless(gain=gain, inference=gain, roundings=taps * (1 + coverage(axes)) + 8)


def _global_average(layer: Any, shapes: Shapes) -> LayerBounds:
    """S equal weights 1 / S."""
    check_channels_last(layer)
    positions = math.prod(shapes.input[:-1])
    gain = 1.0 / math.sqrt(positions)
    return Weightless(gain=gain, inference=gain, roundings=positions + 8)


def _global_max(layer: Any, shapes: Shapes) -> LayerBounds:
    """The derivative selects one entry a channel or shares 1 evenly among m ties: at most 1."""
    check_channels_last(layer)
    return FiniteInput()


def _ranks(name: str, rule: Callable[[Any, Shapes], LayerBounds]) -> dict[type, Any]:
    return {getattr(keras.layers, f"{name}{rank}D"): rule for rank in (1, 2, 3)}


RULES: Rules = MappingProxyType(
    {
        **_ranks("MaxPooling", _max_pooling),
        **_ranks("AveragePooling", _average_pooling),
        **_ranks("GlobalMaxPooling", _global_max),
        **_ranks("GlobalAveragePooling", _global_average),
    }
)
