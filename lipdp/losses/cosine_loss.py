"""Negative cosine similarity."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.losses._ball import larger, row_norms
from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._label_checks import check_classes, check_targets
from lipdp.losses._labels import ball_targets, class_distribution
from lipdp.losses.base import check_domain, checked_number


@keras.saving.register_keras_serializable(package="lipdp")
class CosineLoss(ExplicitLoss):
    """``-<z, y> / max(||z||, min_norm)``.

    Labels are class ids, which mean one-hot vectors, or real vectors (n, K), which are projected on
    the unit ball.

    Guarantees:
        * The gradient is within ``lipschitz = 1 / min_norm`` (and its rounding) for every label and
          all finite logits, those of norm 0 and ``min_norm`` too.

    Args:
        min_norm: Logits shorter than this are not normalised further.
    """

    task = "multiclass"

    def __init__(self, min_norm: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.min_norm = checked_number("min_norm", min_norm)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """With n the divisor and ``c = <z, y> / n``: ``-(y - c z / n) / n``, or ``-y / n``."""
        target, valid = _unit_ball_targets(labels, logits)
        # Entries of z / scale lie in [-1, 1]: norms are taken without overflow.
        shortest = ops.full_like(logits[:, :1], self.min_norm)
        scale = larger(ops.max(ops.abs(logits), axis=-1, keepdims=True), shortest)
        scaled = logits / scale
        norm = row_norms(scaled)
        least = shortest / scale
        divisor = larger(norm, least)
        unit = scaled / divisor
        cosine = ops.sum(unit * target, axis=-1, keepdims=True)
        radial = ops.where(norm > least, cosine * unit, ops.zeros_like(unit))
        return -cosine[:, 0], (radial - target) / divisor / scale, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``||y|| / n <= 1 / min_norm``: outside the ball the projection of y across z is shorter.

        Args:
            logit_bound: Has no influence.
            num_outputs: At least 2.
        """
        check_domain(self, logit_bound, num_outputs)
        return 1.0 / self.min_norm

    # rounding: the label has norm at most 1 + gamma(K + 8), z / n entries err by gamma(K/2 + 5)
    # (twice), their product with y by gamma(K), five more operations: below gamma(8 (K + 4)).

    def check_labels(self, labels: np.ndarray, num_outputs: int) -> None:
        """Class ids, or finite vectors (n, K) of any length."""
        if np.ndim(labels) == 2 and np.shape(labels)[1] == num_outputs:
            check_targets(labels, num_outputs)
        else:
            check_classes(labels, num_outputs)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "min_norm": self.min_norm}


def _unit_ball_targets(labels: Any, logits: Any) -> tuple[Any, Any]:
    labels = ops.convert_to_tensor(labels)
    if len(labels.shape) == 1 or labels.shape[-1] == 1:
        return class_distribution(labels, logits)
    return ball_targets(labels, logits, 1.0)
