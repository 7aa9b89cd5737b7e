"""Mean squared error for bounded targets."""

from __future__ import annotations

from typing import Any, final

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import ball_targets
from lipdp.losses.base import check_domain, checked_number


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
