"""The spectral ball, without orthogonality."""

from __future__ import annotations

from typing import final

import keras

from lipdp.projections._spectral import SpectralBall


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralProjection(SpectralBall):
    """Keeps a kernel, read as a matrix, inside ``||W||_2 <= radius`` by one scalar factor.

    The matrix has shape (product of all axes but the last, last axis). The norm is the proved
    bound of Gram iteration; power iteration would give a lower bound.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside the ball as computed.
        * A weight with a non-finite entry becomes all NaN.
    """
