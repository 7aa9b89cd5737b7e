"""Binary cross-entropy on one logit with an inverse temperature."""

from __future__ import annotations

import keras

from lipdp.losses._sigmoid_loss import SigmoidLoss


@keras.saving.register_keras_serializable(package="lipdp")
class TemperedBinaryCrossentropy(SigmoidLoss):
    """``(1/tau) BCE(sigmoid(tau z), y)`` from one logit z.

    Labels are 0 or 1, or probabilities between; others are clipped, and one that is not finite
    makes an empty slot.

    Guarantees:
        * The gradient is ``sigmoid(tau z) - y``: finite for all finite logits, and within
          ``lipschitz * (1 + rounding)`` for every label.
        * ``lipschitz = 1 / (1 + exp(-tau R)) - e / 2``, which is attained.

    Args:
        inverse_temperature: tau > 0.
        label_smoothing: e in [0, 1); the label y becomes ``(1 - e) y + e / 2``.
    """

    task = "binary"
