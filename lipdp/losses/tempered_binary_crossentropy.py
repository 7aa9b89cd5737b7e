"""Binary cross-entropy on one logit with an inverse temperature."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import binary_probability
from lipdp.losses.base import check_domain, checked_number


@keras.saving.register_keras_serializable(package="lipdp")
class TemperedBinaryCrossentropy(ExplicitLoss):
    """``(1/tau) BCE(sigmoid(tau z), y)`` from one logit z.

    Labels are 0 or 1, or probabilities between; others are clipped, and one that is not finite
    makes an empty slot.

    Guarantees:
        * The gradient is ``sigmoid(tau z) - y``: finite for all finite logits, and within
          ``lipschitz * (1 + rounding)`` for every label.

    Args:
        inverse_temperature: tau > 0.
    """

    task = "binary"

    def __init__(self, inverse_temperature: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inverse_temperature = checked_number("inverse_temperature", inverse_temperature)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """``max(z, 0) - y z + log1p(exp(-tau |z|)) / tau``."""
        target, valid = binary_probability(labels, logits)
        small = ops.exp(-self.inverse_temperature * ops.abs(logits))
        larger = 1.0 / (1.0 + small)
        sigmoid = ops.where(logits >= 0, larger, small / (1.0 + small))
        slope = ops.where(logits >= 0, 1.0 - target, -target) * logits
        value = slope + ops.log1p(small) / self.inverse_temperature
        return value[:, 0], sigmoid - target, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``sup |sigmoid(tau z) - y| = 1 / (1 + exp(-tau R))``, at ``z = -R``, y = 1."""
        check_domain(self, logit_bound, num_outputs)
        return _sigmoid(math.nextafter(self.inverse_temperature * logit_bound, math.inf))

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """The computed sigmoid lies in [0, 1]; and it errs by little.

        The argument has absolute error ``3 u tau R`` and the sigmoid the slope 1/4; the exponential
        (16 u, times at most 1/4 as well), one sum, one division and one difference add 8 u.
        """
        bound = self.lipschitz(logit_bound, num_outputs)
        near = bound + unit * (self.inverse_temperature * logit_bound + 8.0)
        return min(1.0, near) / bound - 1.0 + 2.0**-50

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "inverse_temperature": self.inverse_temperature}


def _sigmoid(value: float) -> float:
    return min(1.0, (1.0 + 1e-15) / (1.0 + math.exp(-value)))
