"""What the layers that project each sample on a ball share."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

from lipdp.layers._ball import balls, project_samples
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import gamma, positive
from lipdp.setting import Setting


class BallLayer(LipschitzLayer):
    """Projects each sample's whole tensor on the ball; a non-finite sample becomes zero.

    Args:
        radius: Radius of the ball.

    Attributes:
        per_position: Whether each position has a ball of its own.
    """

    linear_backward = True
    radius = Setting[float]()
    per_position = Setting[bool](False)

    def __init__(self, radius: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.radius = positive("radius", radius)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._balls, self._entries = balls(input_shape, self.per_position)

    def call(self, inputs: Any) -> Any:
        """``x min(1, radius / ||x||)``, one sample at a time."""
        x = ops.cast(inputs, self.compute_dtype)
        return project_samples(x, self.radius, per_position=self.per_position)

    def forward_bound(self, x: float) -> float:
        """``min(x, radius)``, with a radius ``sqrt(S)`` times as large for S balls."""
        return min(x, math.sqrt(self._balls) * self.radius)

    def backward_bound(self, x: float, g: float) -> float:
        """The projection on a convex set is 1-Lipschitz."""
        return g

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """Relative error of the computed result and of the computed cotangent.

        With n entries a ball, the square sum is off by ``gamma(n + 12)``, its power -3/2 by 1.5
        times that, the inner product of the derivative by ``gamma(n)``, relative to ``||g||``.
        """
        return gamma(3 * self._entries + 24, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "radius": self.radius}
