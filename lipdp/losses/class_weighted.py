"""Public class weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.losses._explicit import as_matrix
from lipdp.losses._label_checks import check_classes
from lipdp.losses._labels import class_distribution, probabilities
from lipdp.losses._wrapper import LossWrapper
from lipdp.losses.base import checked_number
from lipdp.numerics import gamma, times


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ClassWeighted(LossWrapper):
    """Another loss times the weight of the sample's class; of a soft label, the average weight.

    Weights must be public constants. Those from the class counts of the data are private data, and
    those from the counts of a batch also make one sample's loss depend on the others.

    Labels are class ids, or weights (n, K) on the simplex (with one logit: 0 to 1); a sample with
    another label is an empty slot, whatever the loss inside takes.

    Guarantees:
        * The gradient is within ``max(class_weights)`` times the constant of the loss inside (and
          their rounding): an average over the simplex is at most the greatest weight.

    Args:
        loss: A loss for classes: binary or multiclass, of one vector of logits, not clipped.
        class_weights: One number a class, two with one logit; each 0 or in [1e-12, 1e12], not all
            of them 0.

    Raises:
        InvalidValue: If the loss or a weight is something else.
    """

    def __init__(self, loss: Any, class_weights: Sequence[float], **kwargs: Any) -> None:
        super().__init__(loss, **kwargs)
        self.require_plain_inner()
        if self.task in ("regression", "multilabel"):
            raise InvalidValue(
                "Class weights need a loss for classes, of which a sample has one",
                received=self.loss.name,
                fix="Wrap a binary or multiclass loss such as TemperedCrossentropy",
            )
        self.class_weights = _checked_weights(class_weights)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One value a sample, shape (n,)."""
        logits = as_matrix(ops.convert_to_tensor(y_pred))
        self._check_count(int(logits.shape[-1]))
        weights = ops.stop_gradient(self._sample_weights(y_true, logits))
        return weights * self.inner_values(y_true, logits)

    def _sample_weights(self, labels: Any, logits: Any) -> Any:
        if logits.shape[-1] == 1:
            one, valid = probabilities(labels, logits)
            shares = ops.concatenate([1.0 - one, one], axis=-1)
        else:
            shares, valid = class_distribution(labels, logits)
        weights = ops.convert_to_tensor(np.asarray(self.class_weights), dtype=shares.dtype)
        average = ops.sum(shares * weights, axis=-1)
        return ops.where(valid, average, ops.zeros_like(average))

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """The greatest weight times the constant of the loss inside."""
        self._check_count(num_outputs)
        return times(max(self.class_weights), self.loss.lipschitz(logit_bound, num_outputs))

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """That of the loss inside, and of the weight.

        The shares have sum at most ``1 + gamma(K + 1)``; the weights are cast, multiplied and
        summed (``gamma(K + 2)``), and multiply the gradient.
        """
        inner = self.loss.rounding(logit_bound, num_outputs, unit)
        return (1.0 + inner) * (1.0 + gamma(2 * num_outputs + 8, unit)) - 1.0

    def check_labels(self, labels: np.ndarray, num_outputs: int) -> None:
        """As the loss inside, and on the simplex."""
        super().check_labels(labels, num_outputs)
        if num_outputs > 1:
            check_classes(labels, num_outputs)

    def _check_count(self, num_outputs: int) -> None:
        self.task_for(num_outputs)
        if len(self.class_weights) != max(2, num_outputs):
            raise InvalidValue(
                "There must be one weight a class, and two with one logit",
                received=len(self.class_weights),
                fix=f"Pass {max(2, num_outputs)} class weights",
            )

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "class_weights": list(self.class_weights)}


def _checked_weights(class_weights: Sequence[float]) -> tuple[float, ...]:
    values = class_weights.tolist() if isinstance(class_weights, np.ndarray) else class_weights
    if not isinstance(values, list | tuple) or not values:
        raise InvalidValue(
            "class_weights are not a list of numbers",
            received=class_weights,
            fix="Pass one number a class, in the order of the class ids",
        )
    weights = tuple(checked_number("A class weight", v, zero=True) for v in values)
    if math.fsum(weights) == 0.0:
        raise InvalidValue("All class weights are 0", received=weights, fix="Use a positive one")
    return weights
