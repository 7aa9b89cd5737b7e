"""Bounds the backward signal of each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import keras
from keras import ops

from lipdp.layers._ball import project_samples
from lipdp.layers._shapes import entries
from lipdp.layers.base import LipschitzLayer
from lipdp.projections._checks import positive
from lipdp.rounding import gamma


@final
@keras.saving.register_keras_serializable(package="lipdp")
class CotangentClip(LipschitzLayer):
    """Identity forward; backward it projects each sample's cotangent on the ball.

    What it sends back is not the gradient of the loss, but it is a function of one sample only.
    The map itself is the identity, which is what certificates use.

    Args:
        max_norm: Largest Euclidean norm of a sample's cotangent, over its whole tensor.

    Guarantees:
        * The cotangent sent back has norm at most ``min(g, max_norm)``.
        * A cotangent with a non-finite entry is replaced by zero.
        * No norm runs over the batch axis.
    """

    def __init__(self, max_norm: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_norm = positive("max_norm", max_norm)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._entries = entries(input_shape)

    def call(self, inputs: Any) -> Any:
        """The inputs, unchanged."""
        return ops.custom_gradient(self._identity)(inputs)

    def _identity(self, x: Any) -> tuple[Any, Callable[..., Any]]:
        def clip(*args: Any, upstream: Any = None) -> Any:
            return project_samples(args[0] if upstream is None else upstream, self.max_norm)

        return ops.copy(x), clip

    def forward_bound(self, x: float) -> float:
        """The identity."""
        return x

    def backward_bound(self, x: float, g: float) -> float:
        """``min(g, max_norm)``."""
        return min(g, self.max_norm)

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
        return {**super().get_config(), "max_norm": self.max_norm}
