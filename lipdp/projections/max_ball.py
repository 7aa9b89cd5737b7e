"""The ball of the maximum norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.projections._checks import positive
from lipdp.projections.base import Projection


@final
@keras.saving.register_keras_serializable(package="lipdp")
class MaxBall(Projection):
    """Clips each entry of a weight of any shape to ``[-radius, radius]``.

    The bounds are rounded towards 0 in float32, so that they are inside as computed.

    Args:
        radius: Greatest absolute entry, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside; one that already was stays as it is.
        * A weight with a non-finite entry becomes all NaN.
    """

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive("radius", radius)

    @property
    def norm_bound(self) -> float:
        """The radius."""
        return self.radius

    @property
    def limit(self) -> float:
        """The greatest float32 up to the radius."""
        nearest = np.float32(self.radius)
        inside = float(nearest) <= self.radius
        return float(nearest if inside else np.nextafter(nearest, np.float32(0.0)))

    def bound_of(self, w: np.ndarray) -> float:
        """Greatest absolute entry."""
        return greatest_entry_bound(w)

    def spectral_bound(self, shape: Sequence[int]) -> float:
        """The norm of the weight whose entries all have the greatest value, rounded up."""
        return self.radius * math.sqrt(math.prod(shape)) * (1.0 + 2.0**-50)

    def __call__(self, w: Any) -> Any:
        """The clipped weight, same shape and dtype."""
        w = ops.convert_to_tensor(w)
        # Not ops.clip, which shortens float64 to float32 on PyTorch.
        limit = ops.full_like(w, self.limit)
        inside = ops.where(w > limit, limit, ops.where(w < -limit, -limit, w))
        return ops.where(ops.all(ops.isfinite(w)), inside, ops.full_like(w, math.nan))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {"radius": self.radius}


def greatest_entry_bound(w: np.ndarray) -> float:
    """Greatest absolute entry; infinite if one is not finite."""
    greatest = float(np.max(np.abs(np.asarray(w, dtype="float64")), initial=0.0))
    return greatest if math.isfinite(greatest) else math.inf
