"""One loss at each of T positions of a sample."""

from __future__ import annotations

import math
from typing import Any, Literal, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidData, InvalidValue
from lipdp.losses._wrapper import LossWrapper
from lipdp.numerics import gamma

_OVER_POSITIONS = ("mean", "sum")


@final
@keras.saving.register_keras_serializable(package="lipdp")
class PositionwiseLoss(LossWrapper):
    """The mean or sum of a loss over T positions: steps of a sequence, or pixels in a row.

    Logits have shape (n, T, K); labels (n, T), (n, T, 1) or (n, T, K). A position whose label or
    logits are invalid contributes 0 and still counts in the mean, whose divisor T is a constant;
    in a multiclass loss the label -1 marks one.

    Guarantees:
        * The gradient of a sample is within ``lipschitz = L / sqrt T`` for the mean and
          ``L sqrt T`` for the sum (and their rounding), L being the constant of the loss inside at
          the bound R of the whole tensor: each position has ``||z_t|| <= R``, hence a gradient
          within L, and T such blocks together are ``sqrt T`` times as long.

    Args:
        loss: A loss of one vector of logits, not clipped.
        positions: T, at least 1.
        over_positions: ``"mean"`` or ``"sum"``. (``reduction`` is Keras' own, over samples.)

    Raises:
        InvalidValue: If the loss or an option is something else.
    """

    positions: int

    def __init__(
        self,
        loss: Any,
        positions: int,
        over_positions: Literal["mean", "sum"] = "mean",
        **kwargs: Any,
    ) -> None:
        super().__init__(loss, **kwargs)
        self.require_plain_inner()
        if isinstance(positions, bool) or not isinstance(positions, int) or positions < 1:
            raise InvalidValue(
                "positions is no positive whole number",
                received=positions,
                fix="Pass the number T of the model's output shape (n, T, K)",
            )
        if over_positions not in _OVER_POSITIONS:
            raise InvalidValue(
                "over_positions is out of range", received=over_positions, fix="Use 'mean' or 'sum'"
            )
        self.positions = positions
        self.over_positions = over_positions

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One value a sample, shape (n,)."""
        logits, labels = ops.convert_to_tensor(y_pred), ops.convert_to_tensor(y_true)
        if len(logits.shape) != 3 or not self._fits(labels) or logits.shape[1] != self.positions:
            raise InvalidValue(
                "Labels or logits do not have the positions of the loss",
                received=(tuple(labels.shape), tuple(logits.shape)),
                fix=f"Use logits of shape (n, {self.positions}, K), labels (n, {self.positions})",
            )
        rows = ops.reshape(logits, (-1, int(logits.shape[2])))
        values = self.inner_values(ops.reshape(labels, (-1, *labels.shape[2:])), rows)
        total = ops.sum(ops.reshape(values, (-1, self.positions)), axis=-1)
        return total if self.over_positions == "sum" else total / self.positions

    def _fits(self, labels: Any) -> bool:
        return len(labels.shape) in (2, 3) and labels.shape[1] == self.positions

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``L / sqrt T`` or ``L sqrt T``, L at the bound of the whole tensor."""
        inner = self.loss.lipschitz(logit_bound, num_outputs)
        root = math.sqrt(self.positions)
        return inner * root if self.over_positions == "sum" else inner / root

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """That of the loss inside; a division (two, if by reciprocal), a product, the bound's."""
        inner = self.loss.rounding(logit_bound, num_outputs, unit)
        return (1.0 + inner) * (1.0 + gamma(4, unit) + 2.0**-50) - 1.0

    def check_labels(self, labels: np.ndarray, num_outputs: int) -> None:
        """As the loss inside, at each position; -1 marks a position without a class."""
        array = np.asarray(labels)
        if not self._fits(array):
            raise InvalidData(
                "The labels do not have the positions of the loss",
                received=array.shape,
                fix=f"Use labels of shape (n, {self.positions}) or (n, {self.positions}, K)",
            )
        rows = array.reshape(-1, *array.shape[2:])
        if self.task_for(num_outputs) == "multiclass" and (rows.ndim == 1 or rows.shape[1] == 1):
            rows = rows[np.reshape(rows != -1, -1)]
        super().check_labels(rows, num_outputs)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        own = {"positions": self.positions, "over_positions": self.over_positions}
        return {**super().get_config(), **own}
