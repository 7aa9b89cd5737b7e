"""Convolution of images with a near-orthogonal kernel."""

from __future__ import annotations

from typing import final

import keras

from lipdp.layers._convolution import SpectralConvolution


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralConv2D(SpectralConvolution):
    """``conv(x, P) / sqrt(kappa)`` of images (n, rows, columns, C), P near orthogonal; no bias.

    The kernel P of shape (*kernel_size, C / groups, filters), read as a matrix of its last axis
    against all others, has ``||P||_2 <= 1``; kappa is the greatest number of (window, tap) pairs
    that read one position. The division by the root of kappa, and not by an average over positions,
    makes the map 1-Lipschitz.

    Args:
        filters: Channels of the output.
        kernel_size: Taps, an integer or one for each axis.
        strides: Distance of two windows, likewise.
        padding: "same" (zeros around), "valid" or "circular".
        dilation_rate: Distance of two taps, likewise.
        groups: Blocks of channels that do not mix.

    Guarantees:
        * Forward and backward it grows no norm; the kernel gradient of a sample has Frobenius
          norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    rank = 2
