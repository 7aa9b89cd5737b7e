"""Losses of targets that are numbers or directions."""

from __future__ import annotations

import math
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.losses.base import check_domain, checked_number
from lipdp.losses.explicit import ExplicitLoss
from lipdp.losses.labels import (
    ball_targets,
    check_classes,
    check_targets,
    class_distribution,
    finite_targets,
    larger,
    row_norms,
)
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


@final
@keras.saving.register_keras_serializable(package="lipdp")
class MeanSquaredError(ExplicitLoss):
    """``mean_k (z_k - y_k)^2``, the target projected on the ball ``||y||_2 <= target_bound``.

    A target that is not finite makes an empty slot.

    Guarantees:
        * The gradient is ``2 (z - y) / K``: within ``lipschitz = 2 (R + Y) / K`` (and its rounding)
          for every target and ``||z|| <= R``; this is attained at ``y = -Y z / ||z||``.
        * Infinite for unbounded logits, so that no model without a bounded output trains with it.

    Args:
        target_bound: Y, a public Euclidean bound of the whole target of a sample, in its unit.
    """

    task = "regression"

    def __init__(self, target_bound: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_bound = checked_number("target_bound", target_bound)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """Quadratic."""
        target, valid = ball_targets(labels, logits, self.target_bound)
        outputs = int(logits.shape[-1])
        gap = logits - target
        return ops.sum(gap * gap, axis=-1) / outputs, 2.0 * gap / outputs, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``2 ||z - y|| / K <= 2 (R + Y) / K``."""
        check_domain(self, logit_bound, num_outputs)
        return 2.0 * (logit_bound + self.target_bound) / num_outputs

    # rounding: the target has norm at most Y (1 + gamma(K + 8)); a difference, a division (two, if
    # by reciprocal) and the bound's own add 6: below gamma(8 (K + 4)).

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "target_bound": self.target_bound}


@final
@keras.saving.register_keras_serializable(package="lipdp")
class Huber(ExplicitLoss):
    """``mean_k h(z_k - y_k)`` with ``h(d) = d^2 / 2`` if ``|d| <= delta``, else linear.

    A target that is not finite makes an empty slot.

    Guarantees:
        * The gradient is ``clip(z - y, -delta, delta) / K``: within ``lipschitz = min(delta / sqrt
          K, (R + Y) / K)`` (and its rounding) for every target and ``||z|| <= R``, and within the
          former for all finite logits.

    Args:
        delta: Greatest slope of h, at least 1e-12.
        target_bound: Y; targets are projected on the ball ``||y||_2 <= Y``, which must be a public
            bound. None: targets of any size.
    """

    task = "regression"

    def __init__(
        self, delta: float = 1.0, target_bound: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.delta = checked_number("delta", delta)
        self.target_bound = target_bound
        if target_bound is not None:
            self.target_bound = checked_number("target_bound", target_bound)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """With c the clipped difference d: value ``|c| (|d| - |c| / 2)``, slope c."""
        target, valid = self._targets(labels, logits)
        gap, outputs = logits - target, int(logits.shape[-1])
        limit = ops.full_like(gap, self.delta)
        size = ops.abs(gap)
        slope = ops.where(gap > limit, limit, ops.where(gap < -limit, -limit, gap))
        value = ops.abs(slope) * (size - 0.5 * ops.abs(slope))
        return ops.sum(value, axis=-1) / outputs, slope / outputs, valid

    def _targets(self, labels: Any, logits: Any) -> tuple[Any, Any]:
        if self.target_bound is None:
            return finite_targets(labels, logits)
        return ball_targets(labels, logits, self.target_bound)

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """K entries of size at most ``delta / K``, and no longer than ``||z - y|| / K``."""
        check_domain(self, logit_bound, num_outputs)
        reach = logit_bound + (math.inf if self.target_bound is None else self.target_bound)
        return min(self.delta / math.sqrt(num_outputs), reach / num_outputs)

    # rounding: the target has norm at most Y (1 + gamma(K + 8)); a difference, delta cast, a
    # division (two, if by reciprocal) and the bound's own add 6: below gamma(8 (K + 4)).

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        own = {"delta": self.delta, "target_bound": self.target_bound}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable(package="lipdp")
class CosineLoss(ExplicitLoss):
    """``-<z, y> / max(||z||, min_norm)``.

    Labels are class ids, which mean one-hot vectors, or real vectors (n, K), which are projected on
    the unit ball.

    Guarantees:
        * The gradient is within ``lipschitz = 1 / min_norm`` (and its rounding) for every label and
          all finite logits, those of norm 0 and ``min_norm`` too.

    Args:
        min_norm: Logits shorter than this are not normalised further.
    """

    task = "multiclass"

    def __init__(self, min_norm: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.min_norm = checked_number("min_norm", min_norm)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """With n the divisor and ``c = <z, y> / n``: ``-(y - c z / n) / n``, or ``-y / n``."""
        target, valid = _unit_ball_targets(labels, logits)
        # Entries of z / scale lie in [-1, 1]: norms are taken without overflow.
        shortest = ops.full_like(logits[:, :1], self.min_norm)
        scale = larger(ops.max(ops.abs(logits), axis=-1, keepdims=True), shortest)
        scaled = logits / scale
        norm = row_norms(scaled)
        least = shortest / scale
        divisor = larger(norm, least)
        unit = scaled / divisor
        cosine = ops.sum(unit * target, axis=-1, keepdims=True)
        radial = ops.where(norm > least, cosine * unit, ops.zeros_like(unit))
        return -cosine[:, 0], (radial - target) / divisor / scale, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``||y|| / n <= 1 / min_norm``: outside the ball the projection of y across z is shorter.

        Args:
            logit_bound: Has no influence.
            num_outputs: At least 2.
        """
        check_domain(self, logit_bound, num_outputs)
        return 1.0 / self.min_norm

    # rounding: the label has norm at most 1 + gamma(K + 8), z / n entries err by gamma(K/2 + 5)
    # (twice), their product with y by gamma(K), five more operations: below gamma(8 (K + 4)).

    def check_labels(self, labels: np.ndarray, num_outputs: int) -> None:
        """Class ids, or finite vectors (n, K) of any length."""
        if np.ndim(labels) == 2 and np.shape(labels)[1] == num_outputs:
            check_targets(labels, num_outputs)
        else:
            check_classes(labels, num_outputs)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "min_norm": self.min_norm}


def _unit_ball_targets(labels: Any, logits: Any) -> tuple[Any, Any]:
    labels = ops.convert_to_tensor(labels)
    if len(labels.shape) == 1 or labels.shape[-1] == 1:
        return class_distribution(labels, logits)
    return ball_targets(labels, logits, 1.0)
