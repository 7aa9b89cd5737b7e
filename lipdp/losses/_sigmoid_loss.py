"""What the losses of a sigmoid for each logit share."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import probabilities
from lipdp.losses.base import check_domain, checked_number, checked_smoothing
from lipdp.numerics import gamma


class SigmoidLoss(ExplicitLoss):
    """``mean_k (1/tau) BCE(sigmoid(tau z_k), y_k)`` from K logits.

    Args:
        inverse_temperature: tau > 0.
        label_smoothing: e in [0, 1); the label y becomes ``(1 - e) y + e / 2``.
    """

    def __init__(
        self, inverse_temperature: float = 1.0, label_smoothing: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.inverse_temperature = checked_number("inverse_temperature", inverse_temperature)
        self.label_smoothing = checked_smoothing(label_smoothing)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """``max(z, 0) - y z + log1p(exp(-tau |z|)) / tau``, and ``sigmoid(tau z) - y``."""
        target, valid = probabilities(labels, logits)
        if self.label_smoothing:
            target = (1.0 - self.label_smoothing) * target + 0.5 * self.label_smoothing
        small = ops.exp(-self.inverse_temperature * ops.abs(logits))
        larger = 1.0 / (1.0 + small)
        sigmoid = ops.where(logits >= 0, larger, small / (1.0 + small))
        slope = ops.where(logits >= 0, 1.0 - target, -target) * logits
        value = slope + ops.log1p(small) / self.inverse_temperature
        outputs = int(logits.shape[-1])
        return ops.sum(value, axis=-1) / outputs, (sigmoid - target) / outputs, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``(1 / (1 + exp(-tau R / sqrt K)) - e / 2) / sqrt K``, attained at equal logits.

        With ``t = tau |z_k|`` and ``c = (1 - e) / 2 >= 0`` an entry of the sum's gradient is at
        most ``w(t) = sigmoid(t) - e / 2 = tanh(t / 2) / 2 + c``. As a function of the square
        ``s = t^2``, ``w^2`` has the derivative ``(tanh(t / 2) / 2 + c) w'(t) / t``, a sum of
        products of decreasing positive functions: ``w^2`` is concave in s, and by Jensen
        ``sum_k w^2 <= K w^2(tau R / sqrt K)``.
        """
        check_domain(self, logit_bound, num_outputs)
        argument = self.inverse_temperature * logit_bound / math.sqrt(num_outputs)
        sigmoid = min(1.0, (1.0 + 4e-15) / (1.0 + math.exp(-argument)))
        return (sigmoid - 0.5 * self.label_smoothing) / math.sqrt(num_outputs)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """The smaller of two proved slacks, and 3 u for the division by K.

        * Anywhere: the computed sigmoid lies in [0, 1], so an entry is at most ``1 - e / 2``, and
          3 u if labels are smoothed.
        * Near: the argument has absolute error ``3 u tau |z_k|`` and the sigmoid the slope 1/4; the
          exponential (16 u, times at most 1/4 as well), one sum, one division, the smoothed label
          and one difference add 12 u.
        """
        bound = self.lipschitz(logit_bound, num_outputs)
        outputs = float(num_outputs)
        near = bound + unit * (self.inverse_temperature * logit_bound / outputs + 12 / outputs**0.5)
        anywhere = 1.0 - 0.5 * self.label_smoothing + (4.0 * unit if self.label_smoothing else 0.0)
        division = gamma(3, unit) if num_outputs > 1 else 0.0
        slack = min(anywhere / outputs**0.5, near) / bound * (1.0 + division) - 1.0
        return max(0.0, slack) + 2.0**-50

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        options = {"inverse_temperature": self.inverse_temperature}
        return {**super().get_config(), **options, "label_smoothing": self.label_smoothing}
