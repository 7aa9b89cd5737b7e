"""Hinge-regularised Kantorovich-Rubinstein."""

from __future__ import annotations

from typing import Any

import keras

from lipdp.losses._sign_loss import SignLoss, hinge
from lipdp.losses.base import checked_number


@keras.saving.register_keras_serializable(package="lipdp")
class HKR(SignLoss):
    """``-s z + alpha max(0, margin - s z)``; with K logits the mean of the one-against-all terms.

    Guarantees:
        * Each term has slope 1 or ``1 + alpha``: the gradient is within
          ``lipschitz = (1 + alpha) / sqrt K``, for every label.

    Source: Serrurier et al., Achieving robustness in classification using optimal transport with
    hinge regularization (CVPR 2021).

    Args:
        alpha: Weight of the hinge, at least 0.
        margin: At least 0.
    """

    task = "either"

    def __init__(self, alpha: float = 1.0, margin: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = checked_number("alpha", alpha, zero=True)
        self.margin = checked_number("margin", margin, zero=True)

    def term(self, product: Any) -> tuple[Any, Any]:
        """The slope is -1 or ``-(1 + alpha)``."""
        value, slope = hinge(self.margin, product)
        return self.alpha * value - product, self.alpha * slope - 1.0

    def steepest(self) -> float:
        """``1 + alpha``."""
        return 1.0 + self.alpha

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "alpha": self.alpha, "margin": self.margin}
