"""What a loss must prove before it may train privately."""

from __future__ import annotations

import abc
from typing import Any

import keras

from lipdp.rounding import gamma


class LipschitzLoss(keras.losses.Loss, abc.ABC):
    """A per-sample loss with a proved Lipschitz constant with respect to the logits.

    ``call(y_true, y_pred)`` returns one value a sample, shape (n,), and depends on nothing but that
    sample's label and logits. Labels are forced into their set inside the graph, so that the
    constant holds for every label, an out-of-range one included (its sample contributes 0).
    """

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype, **kwargs)

    @abc.abstractmethod
    def lipschitz(self, logit_bound: float, num_outputs: int) -> float:
        """Bound of ``||dl/dz||`` over every label and ``||z|| <= logit_bound`` (may be ``inf``).

        Args:
            logit_bound: Euclidean bound of one sample's logits.
            num_outputs: Number of logits of one sample.
        """

    def rounding(self, logit_bound: float, num_outputs: int, unit: float) -> float:
        """Relative slack s: the computed gradient has norm at most ``lipschitz * (1 + s)``."""
        return gamma(8 * (num_outputs + 4), unit)
