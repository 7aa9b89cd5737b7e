"""Bounds the norm of each sample inside a network."""

from __future__ import annotations

from typing import Any, final

import keras

from lipdp.layers._ball import flag
from lipdp.layers._clip import BallLayer


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ActivationClip(BallLayer):
    """Projection of each sample's whole tensor on the Euclidean ball.

    Args:
        radius: Radius of the ball.
        per_position: Whether each of the S positions of a sample, a vector of channels, is
            projected on its own; the sample then has norm at most ``sqrt(S)`` times the radius.

    Guarantees:
        * The output of a sample (or position) has norm at most the radius; the map is 1-Lipschitz.
        * A sample (or position) with a non-finite entry becomes zero, with zero derivative.
        * No norm runs over the batch axis.
    """

    def __init__(self, radius: float, per_position: bool = False, **kwargs: Any) -> None:
        super().__init__(radius, **kwargs)
        self.per_position = flag("per_position", per_position)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "per_position": self.per_position}
