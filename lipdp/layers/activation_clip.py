"""Bounds the norm of each sample inside a network."""

from __future__ import annotations

from typing import final

import keras

from lipdp.layers._clip import BallLayer


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ActivationClip(BallLayer):
    """Projection of each sample's whole tensor on the Euclidean ball.

    Args:
        radius: Radius of the ball.

    Guarantees:
        * The output of a sample has norm at most the radius; the map is 1-Lipschitz.
        * A sample with a non-finite entry becomes the zero sample, with zero derivative.
        * No norm runs over the batch axis.
    """
