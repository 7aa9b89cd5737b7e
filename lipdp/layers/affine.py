"""A learned bias and a learned factor for each channel, of bounded size."""

from __future__ import annotations

import math
from typing import Any, final

import keras
from keras import ops

from lipdp.layers.base import LipschitzLayer, positions, sample_shape
from lipdp.layers.linear import LinearLayer
from lipdp.numerics import gamma, times
from lipdp.projections import L2Ball, MaxBall
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class BoundedBias(LipschitzLayer):
    """``y = x + b``, b of shape (C,) with ``||b||_2 <= radius``, the same at all S positions.

    The copies of b have norm ``sqrt(S) ||b||``; the gradient ``sum_s g_s`` has norm at most
    ``sqrt(S) ||g||`` (Cauchy-Schwarz).

    Args:
        radius: Radius of the Euclidean ball of the bias, which starts at 0.

    Guarantees:
        * ``||y|| <= ||x|| + sqrt(S) radius``; the map has constant 1.
        * The bias is inside its ball from the start and after every update.
    """

    linear_backward = True
    constraint = Setting[L2Ball]()

    def __init__(self, radius: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.constraint = L2Ball(radius)

    def build(self, input_shape: Any) -> None:
        """Creates the bias."""
        self._positions = positions(input_shape)
        self.bias = self.add_weight(
            name="bias",
            shape=sample_shape(input_shape)[-1:],
            initializer="zeros",
            constraint=self.constraint,
        )

    def call(self, inputs: Any) -> Any:
        """Adds the bias to the last axis."""
        return inputs + self.bias

    def forward_bound(self, x: float) -> float:
        """``x + sqrt(S) ||b||``."""
        return x + math.sqrt(self._positions) * self._set_norm()

    def backward_bound(self, x: float, g: float) -> float:
        """The Jacobian is the identity."""
        return g

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """``sqrt(S) g``."""
        return [times(math.sqrt(self._positions), g) for _ in self.trainable_variables]

    def rounding(self, unit: float) -> float:
        """The gradient is a sum over positions, exact up to ``gamma(S) sum |g_s|``."""
        return gamma(self._positions + 2, unit)

    def inference_bound(self, x: float) -> float:
        """``x + sqrt(S) ||b||`` at the present bias."""
        return x + math.sqrt(self._positions) * self._present_norm()

    def _present_norm(self) -> float:
        return self.constraint.bound_of(ops.convert_to_numpy(self.bias))

    def _set_norm(self) -> float:
        bias = ops.convert_to_numpy(self.bias)
        return self.constraint.reach(bias, trained=bool(self.trainable_variables))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "radius": self.constraint.norm_bound}


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
