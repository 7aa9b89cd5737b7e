"""What a weight constraint must prove."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from lipdp.setting import Settled


class Projection(Settled, keras.constraints.Constraint):
    """A Keras constraint that keeps a weight inside a stated norm ball.

    The value it returns lies inside the ball as computed, rounding included: the last factor
    absorbs it. Projections act on weights that are already private and cost nothing.

    The ball has a norm of its own, which need not be above the spectral one: bounds of layers ask
    for ``spectral_bound``, or know the kind of ball that they read ``norm_bound`` of. Nothing of a
    projection can change once it is made.
    """

    _kind = "projection"

    @property
    @abc.abstractmethod
    def norm_bound(self) -> float:
        """Bound of the norm, in the sense of ``bound_of``, of every weight that this returns."""

    @abc.abstractmethod
    def bound_of(self, w: np.ndarray) -> float:
        """Proved bound, computed in float64 on the host, of the norm of this weight.

        A weight is a member of the set if this is at most ``norm_bound``.
        """

    def reach(self, w: np.ndarray, *, trained: bool) -> float:
        """Bound of the norm of every weight that this one is or, where it is trained, may become.

        A present weight outside the set counts, too: the first step reads it as it is.
        """
        present = self.bound_of(w)
        return max(present, self.norm_bound) if trained else present

    def spectral_bound(self, shape: Sequence[int]) -> float:
        """Bound of the spectral norm of every member of a shape; infinite unless one is proved.

        Args:
            shape: Of the weight, read as a matrix of shape (product of all axes but the last, last
                axis); a vector is one row, its spectral norm the Euclidean one.
        """
        return math.inf

    @abc.abstractmethod
    def __call__(self, w: Any) -> Any:
        """The projected weight, same shape and dtype."""
