"""What the losses that wrap another loss share."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from lipdp.errors import InvalidValue
from lipdp.losses.base import LipschitzLoss, per_row


class LossWrapper(LipschitzLoss):
    """A loss made of another.

    Args:
        loss: A loss of this package, or a subclass of ``LipschitzLoss``.

    Raises:
        InvalidValue: If ``loss`` is something else.
    """

    def __init__(self, loss: Any, **kwargs: Any) -> None:
        inner = keras.saving.deserialize_keras_object(loss) if isinstance(loss, dict) else loss
        if not isinstance(inner, LipschitzLoss):
            raise InvalidValue(
                f"{type(self).__name__} wraps a loss that treats samples one by one",
                received=loss,
                fix="Pass a subclass of lipdp.losses.base.LipschitzLoss",
            )
        kwargs.setdefault("dtype", inner.dtype)
        super().__init__(**kwargs)
        self.loss = inner
        self.task = inner.task

    def require_plain_inner(self) -> None:
        """Refuses a clipped loss, and one over positions, inside.

        Raises:
            InvalidValue: If the loss inside is one.
        """
        if not self.loss.scalable:
            raise InvalidValue(
                f"{type(self).__name__} scales its loss, which a clip inside would undo",
                received=self.loss.name,
                fix="Clip outside: ClippedLoss(PositionwiseLoss(loss, T), max_norm)",
            )
        if self.loss.positions is not None:
            raise InvalidValue(
                f"{type(self).__name__} takes a loss of one vector of logits",
                received=self.loss.name,
                fix="Let PositionwiseLoss wrap it: PositionwiseLoss(ClassWeighted(loss, w), T)",
            )

    def inner_values(self, y_true: Any, logits: Any) -> Any:
        """One value of the loss inside a row, shape (n,).

        Raises:
            UnsupportedLayer: If it returns something else.
        """
        return per_row(self.loss.call(y_true, logits), logits)

    def check_labels(self, labels: np.ndarray, num_outputs: int) -> None:
        """As the loss inside."""
        self.loss.check_labels(labels, num_outputs)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "loss": keras.saving.serialize_keras_object(self.loss)}
