"""A learned factor for each channel, of bounded size."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.layers._shapes import positions, sample_shape
from lipdp.layers.base import LipschitzLayer
from lipdp.projections import MaxBall
from lipdp.rounding import gamma, times


@final
@keras.saving.register_keras_serializable(package="lipdp")
class BoundedScale(LipschitzLayer):
    """``y = a x``, a of shape (C,) with ``|a_i| <= radius``, the same at all S positions.

    The map is diagonal, of norm ``max |a_i|``. The gradient of ``a_i`` is ``sum_s x_si g_si``, at
    most ``||x_i|| ||g_i||`` of channel i, and over all channels at most ``||x|| ||g||``
    (Cauchy-Schwarz, twice).

    Args:
        radius: Greatest absolute factor; factors start at 1, or at the radius if that is smaller.
    """

    linear_backward = True

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

    def forward_bound(self, x: float) -> float:
        """``max |a| x``."""
        return times(self._set_norm(), x)

    def backward_bound(self, x: float, g: float) -> float:
        """``max |a| g``."""
        return times(self._set_norm(), g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """``x g``."""
        return [times(x, g) for _ in self.trainable_variables]

    def lipschitz(self, x: float) -> float:
        """Greatest of the present factors."""
        return self.constraint.bound_of(ops.convert_to_numpy(self.scale))

    def rounding(self, unit: float) -> float:
        """The gradient is a sum of products over positions."""
        return gamma(self._positions + 4, unit)

    def _set_norm(self) -> float:
        present = self.lipschitz(0.0)
        trained = bool(self.trainable_variables)
        return max(present, self.constraint.norm_bound) if trained else present

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "radius": self.constraint.norm_bound}
