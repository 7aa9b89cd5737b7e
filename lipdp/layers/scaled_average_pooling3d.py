"""Averages over windows of volumes, scaled to keep norms."""

from __future__ import annotations

from typing import final

import keras

from lipdp.layers._pooling import ScaledAveragePooling


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ScaledAveragePooling3D(ScaledAveragePooling):
    """Average of each window of (depth, rows, columns, C), over the norm of averaging.

    Where windows do not overlap it is ``sqrt(k)`` times the mean of k elements, while plain average
    pooling shrinks everything by ``1 / sqrt(k)`` at least.

    Args:
        pool_size: Window, an integer or one for each axis.
        strides: Distance of two windows; the window itself if None.
        padding: "valid", or "same": zeros around, which count as elements.

    Guarantees:
        * The map is linear and 1-Lipschitz, and exactly so: some input keeps its norm, if axes of
          overlapping windows have at most 512 positions.
    """

    rank = 3
