"""Normalises each sample to a sphere."""

from __future__ import annotations

import math
from typing import Any, final

import keras
from keras import ops

from lipdp.layers._ball import balls, flag, project_samples
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import gamma, positive, times
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SphereNormalization(LipschitzLayer):
    """``radius x / max(||x||, min_norm)`` with the norm of each sample's whole tensor.

    It is ``radius / min_norm`` times the projection on the ball of radius ``min_norm``.

    Args:
        radius: Norm of the output of every sample of norm at least ``min_norm``.
        min_norm: Below this norm samples are scaled by a constant.
        per_position: Whether each of the S positions of a sample, a vector of channels, is
            normalised on its own; the sample then has norm at most ``sqrt(S)`` times the radius.

    Guarantees:
        * Output norm at most ``min(radius, radius x / min_norm)``, Jacobian at most
          ``radius / min_norm``, both finite at 0.
        * A sample (or position) with a non-finite entry becomes zero, with zero derivative.
        * No norm runs over the batch axis.
    """

    linear_backward = True
    radius = Setting[float]()
    min_norm = Setting[float]()
    per_position = Setting[bool]()

    def __init__(
        self, radius: float, min_norm: float, per_position: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.radius = positive("radius", radius)
        self.min_norm = positive("min_norm", min_norm)
        self.per_position = flag("per_position", per_position)
        self._slope = positive("radius / min_norm", self.radius / self.min_norm)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._balls, self._entries = balls(input_shape, self.per_position)

    def call(self, inputs: Any) -> Any:
        """The normalised samples, same shape."""
        x = ops.cast(inputs, self.compute_dtype)
        return self._slope * project_samples(x, self.min_norm, per_position=self.per_position)

    def forward_bound(self, x: float) -> float:
        """``min(radius, radius x / min_norm)``, the first ``sqrt(S)`` times for S balls."""
        return min(math.sqrt(self._balls) * self.radius, times(self._slope, x))

    def backward_bound(self, x: float, g: float) -> float:
        """``radius g / min_norm``."""
        return times(self._slope, g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """As the projection on a ball, and one product."""
        return gamma(3 * self._entries + 28, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        own = {"radius": self.radius, "min_norm": self.min_norm, "per_position": self.per_position}
        return {**super().get_config(), **own}
