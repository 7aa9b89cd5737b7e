"""Mean absolute error over the outputs."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import finite_targets
from lipdp.losses.base import check_domain
from lipdp.numerics import gamma


@keras.saving.register_keras_serializable(package="lipdp")
class MeanAbsoluteError(ExplicitLoss):
    """``mean_k |z_k - y_k|`` for real targets of any size.

    A target that is not finite makes an empty slot.

    Guarantees:
        * The gradient has entries ``-1/K``, 0 (at an exact hit) and ``1/K``: within
          ``lipschitz = 1 / sqrt K`` (and its rounding) for every target.
    """

    task = "regression"

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """Signs by comparison: no difference that could overflow decides them."""
        target, valid = finite_targets(labels, logits)
        above = ops.cast(logits > target, logits.dtype)
        below = ops.cast(logits < target, logits.dtype)
        outputs = int(logits.shape[-1])
        value = ops.sum(ops.abs(logits - target), axis=-1) / outputs
        return value, (above - below) / outputs, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """K entries of size ``1 / K``: ``1 / sqrt K``."""
        check_domain(self, logit_bound, num_outputs)
        return 1.0 / math.sqrt(num_outputs)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """One division (two roundings if by the reciprocal); the bound has two in float64."""
        return gamma(3, unit) + 2.0**-51
