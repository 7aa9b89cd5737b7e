"""Euclidean norms over windows of volumes."""

from __future__ import annotations

from typing import final

import keras

from lipdp.layers._pooling import L2NormPooling


@final
@keras.saving.register_keras_serializable(package="lipdp")
class L2NormPooling3D(L2NormPooling):
    """Euclidean norm of each window and channel of (depth, rows, columns, C).

    Its derivative is finite everywhere and 0 at an all-zero window. Norms below 2^-50 (2^-400 in
    float64) are squared instead of rooted, to that end.

    Args:
        pool_size: Window, an integer or one for each axis.
        strides: Distance of two windows; the window itself if None.
        padding: "valid", or "same": zeros around.

    Guarantees:
        * ``||y|| <= sqrt(kappa) ||x||`` and the Jacobian is at most ``sqrt(kappa)``, kappa the
          greatest number of windows that read one position: 1 where windows do not overlap.
    """

    rank = 3
