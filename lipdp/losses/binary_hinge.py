"""The hinge on one logit."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import class_signs
from lipdp.losses.base import check_domain, checked_number


@keras.saving.register_keras_serializable(package="lipdp")
class BinaryHinge(ExplicitLoss):
    """``max(0, margin - s z)`` with ``s = 2 y - 1`` and y in {0, 1}.

    Args:
        margin: At least 0.
    """

    task = "binary"

    def __init__(self, margin: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.margin = checked_number("margin", margin, zero=True)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """The gradient is ``-s`` where the hinge is positive, else 0."""
        signs, valid = class_signs(labels, logits)
        gap = self.margin - signs * logits
        gradient = ops.where(gap > 0, -signs, ops.zeros_like(signs))
        return ops.maximum(gap, 0.0)[:, 0], gradient, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``|s| <= 1``."""
        check_domain(self, logit_bound, num_outputs)
        return 1.0

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """None: computed signs lie in [-1, 1]."""
        return 0.0

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "margin": self.margin}
