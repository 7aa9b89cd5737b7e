"""Hinge-regularised Kantorovich-Rubinstein."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import class_signs
from lipdp.losses.base import check_domain, checked_number
from lipdp.rounding import gamma


@keras.saving.register_keras_serializable(package="lipdp")
class HKR(ExplicitLoss):
    """``-s z + alpha max(0, margin - s z)``; with K logits the mean of the one-against-all terms.

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

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """The slope is ``-s`` or ``-(1 + alpha) s``."""
        signs, valid = class_signs(labels, logits)
        gap = self.margin - signs * logits
        terms = self.alpha * ops.maximum(gap, 0.0) - signs * logits
        steep = ops.full_like(signs, 1.0 + self.alpha)
        slope = -signs * ops.where(gap > 0, steep, ops.ones_like(signs))
        return ops.mean(terms, axis=-1), slope / int(logits.shape[-1]), valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """Each term has slope at most ``1 + alpha``: ``(1 + alpha) / sqrt K``."""
        check_domain(self, logit_bound, num_outputs)
        return (1.0 + self.alpha) / math.sqrt(num_outputs)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """Computed signs lie in [-1, 1]; ``1 + alpha`` cast, a product, a division; the bound."""
        return gamma(6, unit) + 2.0**-50

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "alpha": self.alpha, "margin": self.margin}
