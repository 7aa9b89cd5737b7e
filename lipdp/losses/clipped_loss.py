"""Any loss with the gradient of each sample clipped at the logits."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.losses._explicit import LARGEST, as_matrix
from lipdp.losses.base import LipschitzLoss, check_domain, checked_number
from lipdp.rounding import gamma


@keras.saving.register_keras_serializable(package="lipdp")
class ClippedLoss(LipschitzLoss):
    """The value of another loss, its per-sample logit gradient scaled down to a norm.

    The clip acts on what flows back to the logits, weights of the reduction included: the loss of a
    batch must be the sum of its samples, or the clip never acts. A gradient with an entry that is
    not finite becomes 0.

    Args:
        loss: A loss of this package, or a subclass of ``LipschitzLoss``.
        max_norm: Greatest Euclidean norm of one sample's logit gradient.

    Raises:
        InvalidValue: If ``loss`` is something else.
    """

    def __init__(self, loss: Any, max_norm: float = 1.0, **kwargs: Any) -> None:
        inner = keras.saving.deserialize_keras_object(loss) if isinstance(loss, dict) else loss
        if not isinstance(inner, LipschitzLoss):
            raise InvalidValue(
                "ClippedLoss wraps a loss that treats samples one by one",
                received=loss,
                fix="Pass a subclass of lipdp.losses.base.LipschitzLoss",
            )
        kwargs.setdefault("dtype", inner.dtype)
        super().__init__(**kwargs)
        self.loss = inner
        self.task = inner.task
        self.max_norm = checked_number("max_norm", max_norm)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One value a sample, shape (n,)."""
        logits = as_matrix(ops.convert_to_tensor(y_pred))
        return self.loss.call(y_true, _clip_cotangent(logits, self.max_norm))

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """The smaller of the inner constant and the clip."""
        check_domain(self, logit_bound, num_outputs)
        return min(self.loss.lipschitz(logit_bound, num_outputs), self.max_norm)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """The slack of the clip, and that of the inner loss where the clip does not act.

        The computed norm is right to ``gamma(K + 3)`` and five operations scale the gradient.
        """
        own = gamma(num_outputs + 8, unit)
        if self.loss.lipschitz(logit_bound, num_outputs) >= self.max_norm:
            return own
        inner = self.loss.rounding(logit_bound, num_outputs, unit)
        return (1.0 + own) * (1.0 + inner) - 1.0

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        inner = keras.saving.serialize_keras_object(self.loss)
        return {**super().get_config(), "loss": inner, "max_norm": self.max_norm}


def _clip_cotangent(logits: Any, max_norm: float) -> Any:
    """Identity, whose backward pass clips each row."""

    @ops.custom_gradient
    def identity(tensor: Any) -> Any:
        def backward(*args: Any, upstream: Any = None) -> Any:
            return _clip_rows(args[0] if upstream is None else upstream, max_norm)

        return ops.copy(tensor), backward

    return identity(logits)


def _clip_rows(rows: Any, max_norm: float) -> Any:
    finite = ops.all(ops.isfinite(rows), axis=-1, keepdims=True)
    rows = ops.where(finite, rows, ops.zeros_like(rows))
    rows = ops.clip(rows, -LARGEST, LARGEST)
    # Entries of rows / scale lie in [-1, 1]: the norm is taken without overflow.
    scale = ops.maximum(ops.max(ops.abs(rows), axis=-1, keepdims=True), max_norm)
    scaled = rows / scale
    norm = ops.sqrt(ops.sum(scaled * scaled, axis=-1, keepdims=True))
    clipped = scaled / ops.maximum(norm, max_norm / scale) * max_norm
    return ops.where(norm * scale <= max_norm, rows, clipped)
