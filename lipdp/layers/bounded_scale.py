"""A learned factor for each channel, of bounded size."""

from __future__ import annotations

from typing import Any, final

import keras

from lipdp.layers._linear import LinearLayer
from lipdp.layers._shapes import positions, sample_shape
from lipdp.numerics import gamma
from lipdp.projections import MaxBall


@final
@keras.saving.register_keras_serializable(package="lipdp")
class BoundedScale(LinearLayer):
    """``y = a x``, a of shape (C,) with ``|a_i| <= radius``, the same at all S positions.

    The map is diagonal, of norm ``max |a_i|``. The gradient of ``a_i`` is ``sum_s x_si g_si``, at
    most ``||x_i|| ||g_i||`` of channel i, and over all channels at most ``||x|| ||g||``
    (Cauchy-Schwarz, twice).

    Args:
        radius: Greatest absolute factor; factors start at 1, or at the radius if that is smaller.
    """

    def __init__(self, radius: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.constraint = MaxBall(radius)

    def build(self, input_shape: Any) -> None:
        """Creates the factors."""
        self._positions = positions(input_shape)
        self.scale = self.add_weight(
            name="scale",
            shape=sample_shape(input_shape)[-1:],
            initializer=keras.initializers.Constant(min(1.0, self.constraint.limit)),
            constraint=self.constraint,
        )

    def call(self, inputs: Any) -> Any:
        """Multiplies the last axis."""
        return inputs * self.scale

    @property
    def weight(self) -> Any:
        """The factors."""
        return self.scale

    def rounding(self, unit: float) -> float:
        """The gradient is a sum of products over positions."""
        return gamma(self._positions + 4, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "radius": self.constraint.norm_bound}
