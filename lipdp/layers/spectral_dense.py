"""Dense layer with a near-orthogonal kernel."""

from __future__ import annotations

from typing import Any, final

import keras

from lipdp.layers._dense import BoundedDense
from lipdp.projections import BjorckProjection


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralDense(BoundedDense):
    """``y = x W`` with ``||W||_2 <= 1``, W kept near orthogonal by Björck steps; no bias.

    The kernel of shape (in, units) starts orthogonal. Works on the last axis of any tensor.

    Args:
        units: Size of the last axis of the output.

    Guarantees:
        * Forward and backward it grows no norm; the kernel gradient of a sample has Frobenius
          norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, BjorckProjection(), **kwargs)

    def _initializer(self) -> keras.initializers.Initializer:
        return keras.initializers.Orthogonal()
