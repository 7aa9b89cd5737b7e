"""Cross-entropies of logits with an inverse temperature."""

from __future__ import annotations

import functools
import math
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.losses.base import check_domain, checked_number, checked_smoothing
from lipdp.losses.explicit import ExplicitLoss
from lipdp.losses.labels import class_distribution, probabilities
from lipdp.numerics import gamma

_CELLS = 2048
_PIECES = 8
_MOST_CELLS = 200_000
_PRECISION = 1e-7
_ROUNDING = 1.0 + 1e-12


@functools.lru_cache(maxsize=4096)
def softmax_gradient_supremum(radius: float, num_classes: int) -> float:
    """Bound of ``||softmax(z) - e_y||_2`` over ``||z||_2 <= radius`` and every class y.

    Above the supremum by at most about 1e-7 (relative), and never below it.

    Proof. Write s = 1 - p_y and q for the softmax of the other logits: F = s sqrt(1 + ||q||^2).

    * Lowering z_y raises s and leaves q alone, so F has no maximum inside the ball, and (F being
      blind to a common shift, which shortens z unless its mean is 0) none of mean other than 0.
    * Given z_y, let ``u_j = e^{z_j}`` for the other classes, ``E = sum u``, ``Q = sum u^2``:
      ``f = F^2 = (E^2 + Q) / (E + e^{z_y})^2``. At a maximum over a ball of the others there is a
      multiplier m >= 0 with ``f_E u + 2 f_Q u^2 = 2 m ln u`` for each u_j. As ``f_Q > 0``,
      ``k(u) = 2 f_Q u^2 + f_E u - 2 m ln u`` is strictly convex: at most two values p < q, and
      ``k'(q) > 0``. Were two coordinates at q, then along ``e_i - e_j`` (tangent, and E and Q are
      stationary) the Lagrangian would have the second derivative ``2 q k'(q) > 0``: no maximum.
      So one other class stands at b and the K - 2 others at a common c.
    * What is left is a circle: mean 0, norm ``radius``, three values. The Jacobian of softmax has
      spectral norm at most 1/2, so F moves by at most radius / 2 times the angle: branch and bound.

    K = 2 has the closed form ``sqrt 2 / (1 + exp(-sqrt 2 radius))``. The cap ``sqrt 2`` holds for
    every z: ``(1 - p_y)^2 + sum p_j^2 <= 2 (1 - p_y)^2``.

    Args:
        radius: Bound of the Euclidean norm of the logits, temperature included; may be ``inf``.
        num_classes: Number of logits K, at least 2.
    """
    cap = math.sqrt(2.0)
    if num_classes == 2:
        return min(cap, _ROUNDING * cap / (1.0 + math.exp(-cap * radius)))
    if math.isinf(radius):
        return cap
    centres = (np.arange(_CELLS) + 0.5) * (2.0 * np.pi / _CELLS)
    half = np.pi / _CELLS
    while True:
        values = _gradient_norms(centres, radius, num_classes)
        best, error = float(values.max()), 0.5 * radius * half
        if best * (1.0 + _PRECISION) >= cap:
            return cap
        kept = centres[values + error >= best]
        if error <= _PRECISION * best or len(kept) * _PIECES > _MOST_CELLS:
            return min(cap, (best + error) * _ROUNDING)
        half /= _PIECES
        offsets = half * (2.0 * np.arange(_PIECES) + 1.0 - _PIECES)
        centres = (kept[:, None] + offsets).ravel()


def _gradient_norms(angles: np.ndarray, radius: float, classes: int) -> np.ndarray:
    """F on the circle of mean 0 and norm ``radius`` in the space of (z_y, b, c, ..., c)."""
    others = classes - 2
    along, across = radius * np.cos(angles) / math.sqrt(2.0), radius * np.sin(angles)
    common = across * math.sqrt(2.0 / (classes * others))
    shared = -across * math.sqrt(others / (2.0 * classes))
    true, other = shared - along, shared + along
    top = np.maximum(np.maximum(true, other), common)
    e_true, e_other, e_common = (np.exp(v - top) for v in (true, other, common))
    total = e_true + e_other + others * e_common
    away = (e_other + others * e_common) / total
    squares = away**2 + (e_other / total) ** 2 + others * (e_common / total) ** 2
    return np.sqrt(squares)


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


@keras.saving.register_keras_serializable(package="lipdp")
class TemperedBinaryCrossentropy(SigmoidLoss):
    """``(1/tau) BCE(sigmoid(tau z), y)`` from one logit z.

    Labels are 0 or 1, or probabilities between; others are clipped, and one that is not finite
    makes an empty slot.

    Guarantees:
        * The gradient is ``sigmoid(tau z) - y``: finite for all finite logits, and within
          ``lipschitz * (1 + rounding)`` for every label.
        * ``lipschitz = 1 / (1 + exp(-tau R)) - e / 2``, which is attained.

    Args:
        inverse_temperature: tau > 0.
        label_smoothing: e in [0, 1); the label y becomes ``(1 - e) y + e / 2``.
    """

    task = "binary"


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
