"""The hinge on one logit."""

from __future__ import annotations

import keras

from lipdp.losses._sign_loss import SignHinge


@keras.saving.register_keras_serializable(package="lipdp")
class BinaryHinge(SignHinge):
    """``max(0, margin - s z)`` with ``s = 2 y - 1`` and y in {0, 1}.

    Guarantees:
        * The gradient is ``-s`` where the hinge is positive, else 0 (at the kink too): within
          ``lipschitz = 1``, for every label.

    Args:
        margin: At least 0.
    """

    task = "binary"

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """None: computed signs lie in [-1, 1], and are divided by 1."""
        return 0.0
