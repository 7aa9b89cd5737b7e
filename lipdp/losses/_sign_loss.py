"""What the losses of ``s z`` share, with s the one-against-all label in [-1, 1]."""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._label_checks import check_signs
from lipdp.losses._labels import class_signs
from lipdp.losses.base import check_domain, checked_number
from lipdp.numerics import gamma


class SignLoss(ExplicitLoss):
    """``mean_k f(s_k z_k)`` over the K one-against-all terms; s in {-1, 1} from labels 0 and 1.

    With one logit the label -1 is read as 0.
    """

    @abc.abstractmethod
    def term(self, product: Any) -> tuple[Any, Any]:
        """Value and derivative of f at ``s z``."""

    @abc.abstractmethod
    def steepest(self) -> float:
        """Bound of ``|f'|``."""

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """The gradient is ``s f'(s z) / K``."""
        signs, valid = class_signs(labels, logits)
        value, slope = self.term(signs * logits)
        outputs = int(logits.shape[-1])
        return ops.sum(value, axis=-1) / outputs, signs * slope / outputs, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """K entries of size at most ``|f'| / K``: ``sup |f'| / sqrt K``."""
        check_domain(self, logit_bound, num_outputs)
        return self.steepest() / math.sqrt(num_outputs)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """Of 6 u: f' cast, two products, a division (two, if by reciprocal), the bound's own.

        A computed label is at most 1, or ``1 + 2 u`` if its division was by reciprocal: its sign at
        most ``1 + 5 u``.
        """
        return gamma(12, unit) + 2.0**-50

    def check_labels(self, labels: np.ndarray, num_outputs: int) -> None:
        """As in the base class; with one logit -1 is a label too."""
        if self.task_for(num_outputs) == "binary":
            check_signs(labels)
        else:
            super().check_labels(labels, num_outputs)


class SignHinge(SignLoss):
    """``f(t) = max(0, margin - t)``.

    Args:
        margin: At least 0.
    """

    def __init__(self, margin: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.margin = checked_number("margin", margin, zero=True)

    def term(self, product: Any) -> tuple[Any, Any]:
        """The slope is -1 where the hinge is positive, else 0."""
        return hinge(self.margin, product)

    def steepest(self) -> float:
        """1."""
        return 1.0

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "margin": self.margin}


def hinge(margin: float, product: Any) -> tuple[Any, Any]:
    """``max(0, margin - t)`` and its derivative, 0 at the kink."""
    gap, zero = margin - product, ops.zeros_like(product)
    return ops.where(gap > 0, gap, zero), ops.where(gap > 0, zero - 1.0, zero)
