"""The Huber loss, quadratic near the target and linear far away."""

from __future__ import annotations

import math
from typing import Any, final

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import ball_targets, finite_targets
from lipdp.losses.base import check_domain, checked_number


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
