"""Transposed convolution of volumes with a near-orthogonal kernel."""

from __future__ import annotations

from typing import final

import keras

from lipdp.layers._transposed_convolution import SpectralTransposedConvolution


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralConv3DTranspose(SpectralTransposedConvolution):
    """The transpose of ``conv(., P) / sqrt(kappa)`` of volumes: upsampling by strides; no bias.

    The kernel P of shape (*kernel_size, filters, C), read as a matrix of its last axis against all
    others, has ``||P||_2 <= 1``; kappa is that of the convolution that is transposed.

    Args:
        filters: Channels of the output.
        kernel_size: Taps, an integer or one for each axis.
        strides: Output positions for each input position, likewise.
        padding: "same" or "valid", of the convolution that is transposed.

    Guarantees:
        * Forward and backward it grows no norm; the kernel gradient of a sample has Frobenius
          norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    rank = 3
