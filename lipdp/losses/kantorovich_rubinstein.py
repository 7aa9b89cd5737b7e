"""The Kantorovich-Rubinstein loss."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from lipdp.losses._sign_loss import SignLoss


@keras.saving.register_keras_serializable(package="lipdp")
class KantorovichRubinstein(SignLoss):
    """``-s z`` on one logit, s in {-1, 1}; with K logits the mean of the K one-against-all terms.

    The terms have equal weights, public by nature: weights from the class counts of a batch would
    give one record of a rare class a gradient of the order of the whole batch.

    Guarantees:
        * The gradient is ``-s / K``: within ``lipschitz = 1 / sqrt K``, for every label.

    Source: Serrurier et al., Achieving robustness in classification using optimal transport with
    hinge regularization (CVPR 2021).
    """

    task = "either"

    def term(self, product: Any) -> tuple[Any, Any]:
        """Linear."""
        return -product, -ops.ones_like(product)

    def steepest(self) -> float:
        """1."""
        return 1.0
