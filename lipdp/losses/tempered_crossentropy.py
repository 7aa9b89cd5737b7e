"""Softmax cross-entropy with an inverse temperature."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import class_distribution
from lipdp.losses._softmax_gradient import softmax_gradient_supremum
from lipdp.losses.base import check_domain, checked_number, checked_smoothing
from lipdp.numerics import gamma

#: The computed exponential is assumed right to this many unit round-offs (libraries state 1 to 4).
EXPONENTIAL_ROUNDINGS = 16


@keras.saving.register_keras_serializable(package="lipdp")
class TemperedCrossentropy(ExplicitLoss):
    """``(1/tau) CE(softmax(tau z), y)`` from logits z.

    Labels are class ids, (n,) or (n, 1), or weights (n, K) on the simplex. An id outside [0, K), a
    row of weights off the simplex, and a row of logits that is not finite make an empty slot: loss
    and gradient 0.

    Guarantees:
        * The gradient is ``softmax(tau z) - y``: finite for all finite logits, and within
          ``lipschitz * (1 + rounding)`` for every label.
        * Smoothing lowers ``lipschitz``, or leaves it.

    Args:
        inverse_temperature: tau > 0. Large values make the loss a hinge, small ones a mean.
        label_smoothing: e in [0, 1); the label y becomes ``(1 - e) y + e / K``.
    """

    task = "multiclass"

    def __init__(
        self, inverse_temperature: float = 1.0, label_smoothing: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.inverse_temperature = checked_number("inverse_temperature", inverse_temperature)
        self.label_smoothing = checked_smoothing(label_smoothing)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """Shifted by the largest logit, so that nothing overflows to NaN."""
        target, valid = class_distribution(labels, logits)
        if self.label_smoothing:
            uniform = self.label_smoothing / int(logits.shape[-1])
            target = (1.0 - self.label_smoothing) * target + uniform
        shifted = logits - ops.max(logits, axis=-1, keepdims=True)
        weights = ops.exp(self.inverse_temperature * shifted)
        total = ops.sum(weights, axis=-1, keepdims=True)
        used = ops.where(target > 0, shifted, ops.zeros_like(shifted))
        value = ops.log(total[:, 0]) / self.inverse_temperature - ops.sum(target * used, axis=-1)
        return value, weights / total - target, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """Supremum of ``||softmax(tau z) - y||``; convex in y, hence over hard labels.

        With smoothing e, p the softmax and u the uniform label, the gradient is ``(1 - e)(p - y) +
        e (p - u)``. As the softmax has a Jacobian of norm at most 1/2 and is u at 0, ``||p - u|| <=
        min(tau R / 2, sqrt(1 - 1/K))``; the latter is the supremum at R = 0, so the constant is no
        greater than without smoothing.
        """
        check_domain(self, logit_bound, num_outputs)
        radius = math.nextafter(self.inverse_temperature * logit_bound, math.inf)
        hard = softmax_gradient_supremum(radius, num_outputs)
        return self._smoothed(hard, min(0.5 * radius, _uniform_reach(num_outputs)))

    def _smoothed(self, hard: float, uniform: float) -> float:
        share = self.label_smoothing
        if not share:
            return hard
        return ((1.0 - share) * hard + share * uniform) * (1.0 + 1e-15)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """The smaller of two proved slacks.

        With g the relative error of a mass (a sum of K terms, a division, the smoothing):

        * Whatever the exponentials are, the computed softmax has entries in [0, 1] and mass 1 up to
          g, so it is within g of the simplex; the label is within g of its point. The distance of
          the two points is at most ``sqrt 2`` for a hard label and ``sqrt(1 - 1/K)`` for u.
        * The argument has absolute error ``e = gamma_3 sqrt 2 tau R``, each exponential the
          relative error ``t = expm1(e) + 16 u``, hence softmax the relative error
          ``(1 + t) / ((1 - t)(1 - g)) - 1``.
        """
        bound = self.lipschitz(logit_bound, num_outputs)
        mass = gamma(num_outputs + 8, unit)
        anywhere = self._smoothed(math.sqrt(2.0), _uniform_reach(num_outputs)) + 2.0 * mass
        near = bound + _softmax_error(self.inverse_temperature * logit_bound, mass, unit) + mass
        return max(0.0, min(anywhere, near) * (1.0 + 2.0 * unit) / bound - 1.0)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        options = {"inverse_temperature": self.inverse_temperature}
        return {**super().get_config(), **options, "label_smoothing": self.label_smoothing}


def _uniform_reach(classes: int) -> float:
    """Greatest distance of a point of the simplex from its centre, ``sqrt(1 - 1/K)``."""
    return math.sqrt(1.0 - 1.0 / classes) * (1.0 + 1e-15)


def _softmax_error(scaled_bound: float, mass: float, unit: float) -> float:
    argument = gamma(3, unit) * math.sqrt(2.0) * scaled_bound
    if argument > 0.1:
        return math.inf
    term = math.expm1(argument) * (1.0 + 2.0**-40) + (EXPONENTIAL_ROUNDINGS + 1) * unit
    return (1.0 + term) / ((1.0 - term) * (1.0 - mass)) - 1.0 + 1e-30
