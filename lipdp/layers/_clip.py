"""What the layers that project each sample on a ball share."""

from __future__ import annotations

from typing import Any

from keras import ops

from lipdp.layers._ball import project_samples
from lipdp.layers._shapes import entries
from lipdp.layers.base import LipschitzLayer
from lipdp.projections._checks import positive
from lipdp.rounding import gamma


class BallLayer(LipschitzLayer):
    """Projects each sample's whole tensor on the ball; a non-finite sample becomes zero.

    Args:
        radius: Radius of the ball.
    """

    linear_backward = True

    def __init__(self, radius: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.radius = positive("radius", radius)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._entries = entries(input_shape)

    def call(self, inputs: Any) -> Any:
        """``x min(1, radius / ||x||)``, one sample at a time."""
        return project_samples(ops.cast(inputs, self.compute_dtype), self.radius)

    def forward_bound(self, x: float) -> float:
        """``min(x, radius)``."""
        return min(x, self.radius)

    def backward_bound(self, x: float, g: float) -> float:
        """The projection on a convex set is 1-Lipschitz."""
        return g

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """Relative error of the computed result and of the computed cotangent.

        With n entries the square sum is off by ``gamma(n + 12)``, its power -3/2 by 1.5 times that,
        the inner product of the derivative by ``gamma(n)``, all relative to ``||g||``.
        """
        return gamma(3 * self._entries + 24, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "radius": self.radius}
