"""The Kantorovich-Rubinstein loss."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from lipdp.losses._explicit import ExplicitLoss
from lipdp.losses._labels import class_signs
from lipdp.losses.base import check_domain
from lipdp.rounding import gamma


@keras.saving.register_keras_serializable(package="lipdp")
class KantorovichRubinstein(ExplicitLoss):
    """``-s z`` on one logit, s in {-1, 1}; with K logits the mean of the K one-against-all terms.

    The terms have equal weights, public by nature: weights from the class counts of a batch would
    give one record of a rare class a gradient of the order of the whole batch.

    Source: Serrurier et al., Achieving robustness in classification using optimal transport with
    hinge regularization (CVPR 2021).
    """

    task = "either"

    def value_and_gradient(self, labels: Any, logits: Any) -> tuple[Any, Any, Any]:
        """Linear in the logits."""
        signs, valid = class_signs(labels, logits)
        gradient = -signs / int(logits.shape[-1])
        return ops.sum(gradient * logits, axis=-1), gradient, valid

    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """``||s|| / K <= 1 / sqrt K``."""
        check_domain(self, logit_bound, num_outputs)
        return 1.0 / math.sqrt(num_outputs)

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """Signs lie in [-1, 1]; one division each (two, if by reciprocal); the bound has two."""
        return gamma(3, unit) + 2.0**-51
