"""What a loss must prove before it may train privately."""

from __future__ import annotations

import abc
import math
from typing import Any, Literal

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue, UnsupportedLayer
from lipdp.losses.labels import (
    check_classes,
    check_probabilities,
    check_targets,
)
from lipdp.numerics import gamma
from lipdp.setting import Settled

#: What the logits mean. "either": binary with one logit, multiclass with more; "multilabel": a
#: yes or no for each logit.
Task = Literal["binary", "multiclass", "either", "multilabel", "regression"]

#: A task once the number of logits is known.
Reading = Literal["binary", "multiclass", "multilabel", "regression"]


class LipschitzLoss(Settled, keras.losses.Loss):
    """A per-sample loss with a proved Lipschitz constant with respect to the logits.

    ``call(y_true, y_pred)`` returns one value a sample, shape (n,) or (n, 1), and depends on
    nothing but that sample's label and logits. Labels are forced into their set inside the graph,
    so that the constant holds for every label, an out-of-range one included (its sample
    contributes 0).

    Logits have shape (n, K), or (n,) for one logit. Labels are class ids of shape (n,) or (n, 1),
    or one weight a class of shape (n, K), on the simplex; with one logit, 0 or 1; with several
    labels at once, 0 or 1 for each, (n, K); in regression, real numbers.

    Nothing of a loss can change once it is made.

    Attributes:
        task: What the logits mean.
        positions: Number T of vectors of logits a sample has, logits being of shape (n, T, K); None
            if they are one vector.
        scalable: Whether c times the loss has c times its gradient, for every c >= 0. A clip of the
            gradient breaks it, and must be outermost.
    """

    _kind = "loss"
    task: Task = "either"
    positions: int | None = None
    scalable: bool = True

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype, **kwargs)

    @abc.abstractmethod
    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """Bound of ``||dl/dz||`` over every label and ``||z|| <= logit_bound`` (may be ``inf``).

        Args:
            logit_bound: Euclidean bound of one sample's logits, of all positions together.
            num_outputs: Number of logits of one sample (and position).

        Raises:
            InvalidValue: If the loss is not defined for these.
        """

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """Relative slack s: the computed gradient has norm at most ``lipschitz * (1 + s)``.

        Args:
            logit_bound: Euclidean bound of one sample's logits.
            num_outputs: Number of logits of one sample.
            unit: Unit round-off of the dtype of the loss (``self.dtype``).
        """
        return gamma(8 * (num_outputs + 4), unit)

    def task_for(self, num_outputs: int) -> Reading:
        """What this many logits mean under this loss.

        Raises:
            InvalidValue: If the loss has no meaning for this number of logits.
        """
        _check_outputs(self, num_outputs)
        if self.task == "either":
            return "binary" if num_outputs == 1 else "multiclass"
        return self.task

    def check_labels(self, labels: np.ndarray, num_outputs: int) -> None:
        """Refuses labels that training would move or drop, on the host and before training.

        Args:
            labels: Of all samples.
            num_outputs: Number of logits of one sample (and position).

        Raises:
            InvalidData: If labels have another shape or lie outside their set; the message counts
                them and shows none.
            InvalidValue: If the loss has no meaning for this number of logits.
        """
        task = self.task_for(num_outputs)
        if task == "multiclass":
            check_classes(labels, num_outputs)
        elif task == "regression":
            check_targets(labels, num_outputs)
        else:
            check_probabilities(labels, num_outputs)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "dtype": self.dtype}


def per_row(values: Any, logits: Any) -> Any:
    """What a loss returned, as one value a row, shape (n,).

    One number for a whole batch would count once for each row, and a row's part of it would depend
    on the others.

    Args:
        values: What ``call`` returned, shape (n,) or (n, 1).
        logits: What it was given, with n rows.

    Raises:
        UnsupportedLayer: If it has another shape.
    """
    shape, rows = tuple(values.shape), logits.shape[0]
    column = len(shape) in (1, 2) and shape[1:] in ((), (1,))
    if not column or (shape[0] is not None and shape[0] != rows):
        raise UnsupportedLayer(
            "The loss does not return one value a row",
            received=f"shape {shape} for logits of shape {tuple(logits.shape)}",
            fix="Let its call() return shape (n,): reduce over the last axis, as in "
            "ops.mean(values, axis=-1), and leave the sum over rows to Keras",
        )
    # Where a backend traces with an unknown number of rows, it compares them as it runs.
    return ops.reshape(values, (ops.shape(logits)[0],))


def check_domain(loss: LipschitzLoss, logit_bound: float, num_outputs: int) -> None:
    """Refuses a logit bound or a number of logits for which a loss has no constant.

    Raises:
        InvalidValue: If it is so.
    """
    _check_outputs(loss, num_outputs)
    if math.isnan(logit_bound) or logit_bound < 0:
        raise InvalidValue(
            "The bound of the logits is not a nonnegative number",
            received=logit_bound,
            fix="Pass a bound of their Euclidean norm, math.inf if there is none",
        )


def _check_outputs(loss: LipschitzLoss, num_outputs: int) -> None:
    least, most = {"binary": (1, 1), "multiclass": (2, math.inf)}.get(loss.task, (1, math.inf))
    if not least <= num_outputs <= most:
        raise InvalidValue(
            f"{type(loss).__name__}, a {loss.task} loss, is not defined for this number of logits",
            received=num_outputs,
            fix="End the model with one unit if the loss is binary, with one a class if multiclass",
        )


def checked_smoothing(value: float) -> float:
    """A label smoothing in [0, 1).

    Raises:
        InvalidValue: If it is something else.
    """
    if isinstance(value, int | float) and 0.0 <= value < 1.0:
        return float(value)
    raise InvalidValue(
        "label_smoothing is out of range", received=value, fix="Use a number in [0, 1), such as 0.1"
    )


def checked_number(name: str, value: float, *, zero: bool = False) -> float:
    """An option of a loss as a float in [1e-12, 1e12], where float32 neither overflows nor sticks.

    Args:
        name: Of the option.
        value: As given.
        zero: Whether 0 is allowed too.

    Raises:
        InvalidValue: If the value is something else.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (1e-12 <= number <= 1e12 or (zero and number == 0.0)):
        allowed = "0 or a number" if zero else "a number"
        raise InvalidValue(
            f"{name} is out of range", received=value, fix=f"Use {allowed} in [1e-12, 1e12]"
        )
    return number
