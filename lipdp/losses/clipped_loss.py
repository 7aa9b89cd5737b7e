"""Any loss with the gradient of each sample clipped at the logits."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from lipdp.losses._ball import project_rows
from lipdp.losses._explicit import as_matrix
from lipdp.losses._limits import LARGEST
from lipdp.losses._wrapper import LossWrapper
from lipdp.losses.base import check_domain, checked_number
from lipdp.numerics import gamma


@keras.saving.register_keras_serializable(package="lipdp")
class ClippedLoss(LossWrapper):
    """The value of another loss, its per-sample logit gradient scaled down to a norm.

    The clip acts on what flows back to the logits, weights of the reduction included: the loss of a
    batch must be the sum of its samples, or the clip never acts. A gradient with an entry that is
    not finite becomes 0. Over T positions the gradient of all of them together is clipped.

    Guarantees:
        * The gradient of a sample is within ``min(lipschitz, max_norm)`` (and its rounding),
          whatever the loss inside returns.

    Args:
        loss: A loss of this package, or a subclass of ``LipschitzLoss``.
        max_norm: Greatest Euclidean norm of one sample's logit gradient.

    Raises:
        InvalidValue: If ``loss`` is something else.
    """

    scalable = False

    def __init__(self, loss: Any, max_norm: float = 1.0, **kwargs: Any) -> None:
        super().__init__(loss, **kwargs)
        self.positions = self.loss.positions
        self.max_norm = checked_number("max_norm", max_norm)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One value a sample, shape (n,)."""
        logits = ops.convert_to_tensor(y_pred)
        if self.positions is None:
            return self.inner_values(y_true, _clip_cotangent(as_matrix(logits), self.max_norm))
        shape = tuple(int(side) for side in logits.shape[1:])
        rows = _clip_cotangent(ops.reshape(logits, (-1, math.prod(shape))), self.max_norm)
        return self.inner_values(y_true, ops.reshape(rows, (-1, *shape)))

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """The smaller of the inner constant and the clip."""
        check_domain(self, logit_bound, num_outputs)
        return min(self.loss.lipschitz(logit_bound, num_outputs), self.max_norm)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """The slack of the clip, and that of the inner loss where the clip does not act."""
        own = gamma(num_outputs * (self.positions or 1) + 8, unit)
        if self.loss.lipschitz(logit_bound, num_outputs) >= self.max_norm:
            return own
        inner = self.loss.rounding(logit_bound, num_outputs, unit)
        return (1.0 + own) * (1.0 + inner) - 1.0

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "max_norm": self.max_norm}


def _clip_cotangent(rows: Any, max_norm: float) -> Any:
    """Identity, whose backward pass clips each row."""

    @ops.custom_gradient
    def identity(tensor: Any) -> Any:
        def backward(*args: Any, upstream: Any = None) -> Any:
            return _clip_rows(args[0] if upstream is None else upstream, max_norm)

        return ops.copy(tensor), backward

    return identity(rows)


def _clip_rows(rows: Any, max_norm: float) -> Any:
    finite = ops.all(ops.isfinite(rows), axis=-1, keepdims=True)
    rows = ops.where(finite, rows, ops.zeros_like(rows))
    return project_rows(ops.clip(rows, -LARGEST, LARGEST), max_norm)
