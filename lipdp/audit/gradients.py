"""Per-sample gradient norms of held-out rows against their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds import gradient_bounds_now
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.errors import BoundViolation


@dataclass(frozen=True)
class GradientAudit:
    """Greatest measured norm over bound, for each trainable variable.

    Attributes:
        ratios: One entry a variable of ``model.trainable_variables``, each at most 1.
        rows: How many rows were measured.
    """

    ratios: tuple[float, ...]
    rows: int

    @property
    def tightness(self) -> float:
        """The greatest ratio: near 1 says that the bound is attained."""
        return max(self.ratios)


def audit_gradients(model: keras.Model, loss: Any, x: np.ndarray, y: np.ndarray) -> GradientAudit:
    """Measures the gradient of each row, one at a time, against the proved bounds.

    Measuring private training rows would be a query of its own: pass held-out rows.

    Args:
        model: A built model.
        loss: A loss of ``lipdp.losses``.
        x: Held-out inputs, shape (n, ...).
        y: Their targets, shape (n, ...).

    Raises:
        BoundViolation: If a norm exceeds its bound, or is NaN.
    """
    bounds = np.asarray(gradient_bounds_now(model, loss).parameters)
    norms = per_sample_gradient_norms(model, loss, x, y)
    # Written so that NaN fails too.
    if not (norms <= bounds).all():
        row = int(np.argmax(~(norms <= bounds).all(axis=1)))
        raise BoundViolation(
            f"The gradient of row {row} exceeds its bound {bounds.tolist()}",
            received=norms[row].tolist(),
            fix="A layer, loss or bound is wrong: find it with lipdp.testing.check_layer",
        )
    positive = np.where(bounds > 0.0, bounds, 1.0)
    return GradientAudit(tuple((norms / positive).max(axis=0).tolist()), len(norms))
