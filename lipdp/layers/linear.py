"""The bounds that linear maps with one trained weight share."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
from keras import ops

from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import times
from lipdp.projections import Projection
from lipdp.setting import Setting


class LinearLayer(LipschitzLayer):
    """A linear map of norm n, whose weight has a gradient of norm at most ``x g``.

    Attributes:
        constraint: The set of the weight; its norm bounds that of the map.
    """

    linear_backward = True
    constraint = Setting[Projection]()

    @property
    @abc.abstractmethod
    def weight(self) -> Any:
        """The variable that is trained."""

    def forward_bound(self, x: float) -> float:
        """``n x``."""
        return times(self._set_norm(), x)

    def backward_bound(self, x: float, g: float) -> float:
        """``n g``."""
        return times(self._set_norm(), g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """``x g``."""
        return [times(x, g) for _ in self.trainable_variables]

    def lipschitz(self, x: float) -> float:
        """Proved norm at the present weight."""
        return self.constraint.bound_of(self._present())

    def inference_bound(self, x: float) -> float:
        """``||W|| x`` at the present weight."""
        return times(self.lipschitz(x), x)

    def _set_norm(self) -> float:
        """Norm of every map that training can visit, a present one outside its set included."""
        if not self.trainable_variables:
            return self.lipschitz(0.0)
        return self.constraint.reach(self._present(), trained=True)

    def _present(self) -> np.ndarray:
        return np.asarray(ops.convert_to_numpy(self.weight))
