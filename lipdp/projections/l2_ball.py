"""The Euclidean ball, for biases."""

from __future__ import annotations

from typing import final

import keras

from lipdp.projections._euclidean import EuclideanBall


@final
@keras.saving.register_keras_serializable(package="lipdp")
class L2Ball(EuclideanBall):
    """Projection of a tensor of any shape on the Euclidean ball of all its entries.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside the ball as computed; one that already was stays, up to
          the rounding margin.
        * A weight with a non-finite entry becomes all NaN.
    """
