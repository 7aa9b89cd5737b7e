"""Binary cross-entropy of several labels at once."""

from __future__ import annotations

from typing import final

import keras

from lipdp.losses._sigmoid_loss import SigmoidLoss


@final
@keras.saving.register_keras_serializable(package="lipdp")
class MultilabelBinaryCrossentropy(SigmoidLoss):
    """``mean_k (1/tau) BCE(sigmoid(tau z_k), y_k)``: a yes or no for each of K logits.

    Labels are 0 or 1, or probabilities between, shape (n, K); others are clipped, and a row with
    one that is not finite makes an empty slot.

    Guarantees:
        * The gradient is ``(sigmoid(tau z) - y) / K``: finite for all finite logits, and within
          ``lipschitz * (1 + rounding)`` for every label.
        * ``lipschitz = (1 / (1 + exp(-tau R / sqrt K)) - e / 2) / sqrt K``, which is attained.

    Args:
        inverse_temperature: tau > 0.
        label_smoothing: e in [0, 1); the label y becomes ``(1 - e) y + e / 2``.
    """

    task = "multilabel"
