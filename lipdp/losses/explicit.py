"""Losses that write down their own gradient, so that the proof is about the code that runs."""

from __future__ import annotations

import abc
from typing import Any

from keras import ops

from lipdp.losses.base import LipschitzLoss
from lipdp.losses.labels import (
    LARGEST,
    as_matrix,
)


class ExplicitLoss(LipschitzLoss):
    """A loss given by value and gradient; automatic differentiation only multiplies.

    With G the stated gradient, held constant, ``sum G (z - z0)`` at ``z0 = z`` adds exactly 0 to
    the value and has gradient G, to the last bit, on every backend: kinks, ties and overflow are
    decided here and not by the derivative of some operation. A sample with an invalid label or
    non-finite logits is an empty slot: value 0 and gradient 0, by selection. The formula sees
    logits clipped to 1e30: beyond, a reciprocal is subnormal, some compilers flush it to 0, and
    0 / 0 follows.
    """

    @abc.abstractmethod
    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """Value (n,), gradient (n, K), and whether the label is valid (n,).

        Args:
            labels: As given by the user.
            logits: Entries in [-1e30, 1e30], shape (n, K), in the dtype of the loss.
        """

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One value a sample, shape (n,)."""
        logits = as_matrix(ops.convert_to_tensor(y_pred))
        self.task_for(int(logits.shape[-1]))
        finite = ops.all(ops.isfinite(logits), axis=-1, keepdims=True)
        logits = ops.where(finite, logits, ops.zeros_like(logits))
        fixed = ops.stop_gradient(logits)
        tame = ops.clip(fixed, -LARGEST, LARGEST)
        value, gradient, valid = self.value_and_gradient(y_true, tame)
        valid = ops.logical_and(valid, finite[:, 0])
        gradient = ops.where(valid[:, None], gradient, ops.zeros_like(gradient))
        value = ops.where(valid, value, ops.zeros_like(value))
        moved = ops.sum(ops.stop_gradient(gradient) * (logits - fixed), axis=-1)
        return ops.stop_gradient(value) + moved
