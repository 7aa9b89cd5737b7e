"""Layer normalisation without its variance."""

from __future__ import annotations

from typing import Any, final

import keras

from lipdp.errors import InvalidValue
from lipdp.layers._centered import centered, centering_roundings
from lipdp.layers._shapes import sample_shape
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import gamma, times


@final
@keras.saving.register_keras_serializable(package="lipdp")
class CenterNorm(LipschitzLayer):
    """``C / (C - 1) (x - mean(x))`` over the C channels of each position, C at least 2.

    The mean is removed by an orthogonal projection of norm 1, so the constant is ``C / (C - 1)``.
    Put a ``BoundedScale`` and a ``BoundedBias`` behind for the learned scale and shift. Source: X.
    Qi et al., LipsFormer: Introducing Lipschitz Continuity to Vision Transformers, ICLR 2023.
    """

    linear_backward = True

    def build(self, input_shape: Any) -> None:
        """Learns the number of channels.

        Raises:
            InvalidValue: If there is only one.
        """
        self._channels = sample_shape(input_shape)[-1]
        if self._channels < 2:
            raise InvalidValue(
                "CenterNorm needs at least two channels", received=tuple(input_shape)
            )

    def call(self, inputs: Any) -> Any:
        """The centred and stretched samples, same shape."""
        return centered(inputs, -1) * self._factor

    @property
    def _factor(self) -> float:
        return self._channels / (self._channels - 1)

    def forward_bound(self, x: float) -> float:
        """``C / (C - 1) x``."""
        return times(self._factor, x)

    def backward_bound(self, x: float, g: float) -> float:
        """``C / (C - 1) g``."""
        return times(self._factor, g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """Of the mean, the difference and the factor."""
        return gamma(centering_roundings(self._channels) + 2, unit)
