"""Losses around another loss: clipped, with class weights, at each position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidData, InvalidValue
from lipdp.losses.base import LipschitzLoss, check_domain, checked_number, per_row
from lipdp.losses.labels import (
    LARGEST,
    as_matrix,
    check_classes,
    class_distribution,
    probabilities,
    project_rows,
)
from lipdp.numerics import gamma, times


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
