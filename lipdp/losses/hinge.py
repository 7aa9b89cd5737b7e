"""Hinges, the Kantorovich-Rubinstein loss, and what the two make together."""

from __future__ import annotations

import abc
import math
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.losses.base import check_domain, checked_number
from lipdp.losses.explicit import ExplicitLoss
from lipdp.losses.labels import LARGEST, check_signs, class_distribution, class_signs
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
        """At most 6 u: f' cast, two products, a division (two, if by reciprocal), the bound's own.

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


@keras.saving.register_keras_serializable(package="lipdp")
class BinaryHinge(SignHinge):
    """``max(0, margin - s z)`` with ``s = 2 y - 1`` and y in {0, 1}.

    Guarantees:
        * The gradient is ``-s`` where the hinge is positive, else 0 (at the kink too): within
          ``lipschitz = 1``, for every label.

    Args:
        margin: At least 0.
    """

    task = "binary"

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """None: computed signs lie in [-1, 1], and are divided by 1."""
        return 0.0


@final
@keras.saving.register_keras_serializable(package="lipdp")
class OneVersusAllHinge(SignHinge):
    """``mean_k max(0, margin - s_k z_k)``, with ``s_k`` 1 at the true class and -1 elsewhere.

    Labels are class ids, or weights y (n, K) on the simplex, which mean ``s = 2 y - 1``.

    Guarantees:
        * The gradient has entries ``-s_k / K`` or 0 (at the kink too): within
          ``lipschitz = 1 / sqrt K``, for every label.

    Args:
        margin: At least 0.
    """

    task = "multiclass"


@keras.saving.register_keras_serializable(package="lipdp")
class KantorovichRubinstein(SignLoss):
    """``-s z`` on one logit, s in {-1, 1}; with K logits the mean of the K one-against-all terms.

    The terms have equal weights, public by nature: weights from the class counts of a batch would
    give one record of a rare class a gradient of the order of the whole batch.

    Guarantees:
        * The gradient is ``-s / K``: within ``lipschitz = 1 / sqrt K``, for every label.

    Source: Serrurier et al., Achieving robustness in classification using optimal transport with
    hinge regularization (CVPR 2021).
    """

    task = "either"

    def term(self, product: Any) -> tuple[Any, Any]:
        """Linear."""
        return -product, -ops.ones_like(product)

    def steepest(self) -> float:
        """1."""
        return 1.0


@keras.saving.register_keras_serializable(package="lipdp")
class HKR(SignLoss):
    """``-s z + alpha max(0, margin - s z)``; with K logits the mean of the one-against-all terms.

    Guarantees:
        * Each term has slope 1 or ``1 + alpha``: the gradient is within
          ``lipschitz = (1 + alpha) / sqrt K``, for every label.

    Source: Serrurier et al., Achieving robustness in classification using optimal transport with
    hinge regularization (CVPR 2021).

    Args:
        alpha: Weight of the hinge, at least 0.
        margin: At least 0.
    """

    task = "either"

    def __init__(self, alpha: float = 1.0, margin: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = checked_number("alpha", alpha, zero=True)
        self.margin = checked_number("margin", margin, zero=True)

    def term(self, product: Any) -> tuple[Any, Any]:
        """The slope is -1 or ``-(1 + alpha)``."""
        value, slope = hinge(self.margin, product)
        return self.alpha * value - product, self.alpha * slope - 1.0

    def steepest(self) -> float:
        """``1 + alpha``."""
        return 1.0 + self.alpha

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "alpha": self.alpha, "margin": self.margin}


@keras.saving.register_keras_serializable(package="lipdp")
class MulticlassHinge(ExplicitLoss):
    """``max(0, margin + max_{j != y} z_j - z_y)``.

    Labels are class ids, or weights (n, K) on the simplex, of which the largest counts (the first,
    at a tie).

    Guarantees:
        * The gradient is ``e_j - e_y`` for one j, the first at a tie, or 0: norm exactly ``sqrt 2``
          or 0, on every backend.

    Args:
        margin: At least 0.
    """

    task = "multiclass"

    def __init__(self, margin: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.margin = checked_number("margin", margin, zero=True)

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """One subgradient."""
        distribution, valid = class_distribution(labels, logits)
        dtype = keras.backend.standardize_dtype(logits.dtype)
        classes = int(logits.shape[-1])
        true = ops.one_hot(ops.argmax(distribution, axis=-1), classes, dtype=dtype)
        others = ops.where(true > 0, ops.full_like(logits, -2.0 * LARGEST), logits)
        rival = ops.one_hot(ops.argmax(others, axis=-1), classes, dtype=dtype)
        gap = self.margin + ops.max(others, axis=-1) - ops.sum(true * logits, axis=-1)
        active = ops.cast(gap > 0, dtype)
        return ops.where(gap > 0, gap, ops.zeros_like(gap)), active[:, None] * (rival - true), valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``||e_j - e_y|| = sqrt 2``."""
        check_domain(self, logit_bound, num_outputs)
        return math.sqrt(2.0)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """None: the entries are -1, 0 and 1 exactly, and ``math.sqrt(2.0)`` is above the root."""
        return 0.0

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "margin": self.margin}
