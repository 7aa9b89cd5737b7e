"""The hinge between the true class and the best other one."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import class_distribution
from lipdp.losses._limits import LARGEST
from lipdp.losses.base import check_domain, checked_number


@keras.saving.register_keras_serializable(package="lipdp")
class MulticlassHinge(ExplicitLoss):
    """``max(0, margin + max_{j != y} z_j - z_y)``.

    Labels are class ids, or weights (n, K) on the simplex, of which the largest counts (the first,
    at a tie).

    Guarantees:
        * The gradient is ``e_j - e_y`` for one j, the first at a tie, or 0: norm exactly ``sqrt 2``
          or 0, on every backend.

    Args:
        margin: At least 0.
    """

    task = "multiclass"

    def __init__(self, margin: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.margin = checked_number("margin", margin, zero=True)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """One subgradient."""
        distribution, valid = class_distribution(labels, logits)
        dtype = keras.backend.standardize_dtype(logits.dtype)
        classes = int(logits.shape[-1])
        true = ops.one_hot(ops.argmax(distribution, axis=-1), classes, dtype=dtype)
        others = ops.where(true > 0, ops.full_like(logits, -2.0 * LARGEST), logits)
        rival = ops.one_hot(ops.argmax(others, axis=-1), classes, dtype=dtype)
        gap = self.margin + ops.max(others, axis=-1) - ops.sum(true * logits, axis=-1)
        active = ops.cast(gap > 0, dtype)
        return ops.where(gap > 0, gap, ops.zeros_like(gap)), active[:, None] * (rival - true), valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``||e_j - e_y|| = sqrt 2``."""
        check_domain(self, logit_bound, num_outputs)
        return math.sqrt(2.0)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """None: the entries are -1, 0 and 1 exactly, and ``math.sqrt(2.0)`` is above the root."""
        return 0.0

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "margin": self.margin}
