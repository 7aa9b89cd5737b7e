"""Bounds the backward signal of each sample."""

from __future__ import annotations

import math
from typing import Any, final

import keras

from lipdp.layers._backward import identity
from lipdp.layers._ball import balls, flag, project_samples
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import gamma, positive
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class CotangentClip(LipschitzLayer):
    """Identity forward; backward it projects each sample's cotangent on the ball.

    What it sends back is not the gradient of the loss, but it is a function of one sample only.
    The map itself is the identity, which is what certificates use.

    Args:
        max_norm: Largest Euclidean norm of a sample's cotangent, over its whole tensor.
        per_position: Whether the cotangent of each of the S positions of a sample, a vector of
            channels, is clipped on its own.

    Guarantees:
        * The cotangent sent back has norm at most ``min(g, max_norm)``, or ``min(g, sqrt(S)
          max_norm)`` if clipped by position.
        * A cotangent (or that of a position) with a non-finite entry is replaced by zero.
        * No norm runs over the batch axis.
    """

    max_norm = Setting[float]()
    per_position = Setting[bool]()

    def __init__(self, max_norm: float, per_position: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_norm = positive("max_norm", max_norm)
        self.per_position = flag("per_position", per_position)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._balls, self._entries = balls(input_shape, self.per_position)

    def call(self, inputs: Any) -> Any:
        """The inputs, unchanged."""
        return identity(inputs, backward=self._clip)

    def _clip(self, u: Any) -> Any:
        return project_samples(u, self.max_norm, per_position=self.per_position)

    def forward_bound(self, x: float) -> float:
        """The identity."""
        return x

    def backward_bound(self, x: float, g: float) -> float:
        """``min(g, max_norm)``, with a norm ``sqrt(S)`` times as large for S positions."""
        return min(g, math.sqrt(self._balls) * self.max_norm)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def lipschitz(self, x: float) -> float:
        """The forward map is the identity."""
        return 1.0

    def rounding(self, unit: float) -> float:
        """Relative error of the computed norm of n entries."""
        return gamma(self._entries + 24, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        own = {"max_norm": self.max_norm, "per_position": self.per_position}
        return {**super().get_config(), **own}
