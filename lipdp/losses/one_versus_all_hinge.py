"""The mean of K hinges, each class against all others."""

from __future__ import annotations

from typing import final

import keras

from lipdp.losses._sign_loss import SignHinge


@final
@keras.saving.register_keras_serializable(package="lipdp")
class OneVersusAllHinge(SignHinge):
    """``mean_k max(0, margin - s_k z_k)``, with ``s_k`` 1 at the true class and -1 elsewhere.

    Labels are class ids, or weights y (n, K) on the simplex, which mean ``s = 2 y - 1``.

    Guarantees:
        * The gradient has entries ``-s_k / K`` or 0 (at the kink too): within
          ``lipschitz = 1 / sqrt K``, for every label.

    Args:
        margin: At least 0.
    """

    task = "multiclass"
