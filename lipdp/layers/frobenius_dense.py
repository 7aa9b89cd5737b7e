"""Dense layer with a kernel in the Frobenius ball."""

from __future__ import annotations

from typing import Any, final

import keras

from lipdp.layers._dense import BoundedDense
from lipdp.projections import FrobeniusProjection
from lipdp.setting import Setting


@final
@keras.saving.register_keras_serializable(package="lipdp")
class FrobeniusDense(BoundedDense):
    """``y = x W`` with ``||W||_F <= radius``; no bias.

    Cheaper to keep than a spectral ball, and just as large for one output.

    Args:
        units: Size of the last axis of the output.
        radius: Radius of the Frobenius ball.
        kernel_initializer: Of the kernel, which is projected at once. A linear classifier learns
            best from ``"zeros"``.

    Guarantees:
        * Forward and backward it multiplies norms by at most the radius; the kernel gradient of a
          sample has Frobenius norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    kernel_initializer = Setting[keras.initializers.Initializer]()

    def __init__(
        self,
        units: int,
        radius: float = 1.0,
        *,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(units, FrobeniusProjection(radius), **kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def _initializer(self) -> keras.initializers.Initializer:
        return self.kernel_initializer

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "radius": self.constraint.norm_bound,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
