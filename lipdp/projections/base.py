"""What a weight constraint must prove."""

from __future__ import annotations

import abc
from typing import Any

import keras
import numpy as np


class Projection(keras.constraints.Constraint, abc.ABC):
    """A Keras constraint that keeps a weight inside a stated norm ball.

    The value it returns lies inside the ball as computed, rounding included: the last factor
    absorbs it. Projections act on weights that are already private and cost nothing.
    """

    @property
    @abc.abstractmethod
    def norm_bound(self) -> float:
        """Bound of the norm, also the spectral one, of every weight that this returns."""

    @abc.abstractmethod
    def bound_of(self, w: np.ndarray) -> float:
        """Proved bound, computed in float64 on the host, of the norm of this weight."""

    @abc.abstractmethod
    def __call__(self, w: Any) -> Any:
        """The projected weight, same shape and dtype."""
