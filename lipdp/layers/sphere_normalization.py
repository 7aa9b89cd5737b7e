"""Normalises each sample to a sphere."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.layers._ball import project_samples
from lipdp.layers._shapes import entries
from lipdp.layers.base import LipschitzLayer
from lipdp.projections._checks import positive
from lipdp.rounding import gamma, times


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SphereNormalization(LipschitzLayer):
    """``radius x / max(||x||, min_norm)`` with the norm of each sample's whole tensor.

    It is ``radius / min_norm`` times the projection on the ball of radius ``min_norm``.

    Args:
        radius: Norm of the output of every sample of norm at least ``min_norm``.
        min_norm: Below this norm samples are scaled by a constant.

    Guarantees:
        * Output norm at most ``min(radius, radius x / min_norm)``, Jacobian at most
          ``radius / min_norm``, both finite at 0.
        * A sample with a non-finite entry becomes the zero sample, with zero derivative.
        * No norm runs over the batch axis.
    """

    linear_backward = True

    def __init__(self, radius: float, min_norm: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.radius = positive("radius", radius)
        self.min_norm = positive("min_norm", min_norm)
        self._slope = positive("radius / min_norm", self.radius / self.min_norm)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._entries = entries(input_shape)

    def call(self, inputs: Any) -> Any:
        """The normalised samples, same shape."""
        x = ops.cast(inputs, self.compute_dtype)
        return self._slope * project_samples(x, self.min_norm)

    def forward_bound(self, x: float) -> float:
        """``min(radius, radius x / min_norm)``."""
        return min(self.radius, times(self._slope, x))

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
        return {**super().get_config(), "radius": self.radius, "min_norm": self.min_norm}
