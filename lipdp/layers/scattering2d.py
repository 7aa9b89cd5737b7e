"""The wavelet scattering transform of images."""

from __future__ import annotations

import math
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers import _wavelets as wavelets
from lipdp.layers._pooling import check_rank
from lipdp.layers._shapes import sample_shape
from lipdp.layers._smooth_norm import smooth_norm
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import count, gamma, times
from lipdp.setting import Setting

_MOST_SCALES = 4


@final
@keras.saving.register_keras_serializable(package="lipdp")
class Scattering2D(LipschitzLayer):
    """Wavelet scattering of each channel of (rows, columns, C); nothing of it is trained.

    A level maps an image u to a low-pass part ``A u`` and to the moduli ``|psi * u|`` of its
    wavelet coefficients, of which the next level scatters those again whose wavelets are coarser
    than all before. Low-pass parts of all paths, read every ``2^J`` positions, are the output: for
    2 scales and 8 orientations to order 2 these are 81 channels of a quarter of each side. Images
    are surrounded by zeros.

    Proof of the constant 1: the filters of a level are divided by the proved norm of their joint
    map (``lipdp.layers._wavelets.bank_norm``), so ``||A d||^2 + sum ||psi * d||^2 <= ||d||^2`` for
    ``d = u - v``. The modulus, ``smooth_norm`` of real and imaginary part, is 1-Lipschitz and 0 at
    0 with a Jacobian of norm at most 1. If the levels behind are 1-Lipschitz, ``||S u - S v||^2 =
    ||A d||^2 + sum ||S|psi * u| - S|psi * v|||^2 <= ||A d||^2 + sum ||psi * d||^2 <= ||d||^2``.
    The same lines with derivatives bound the Jacobian. Source: S. Mallat, Group Invariant
    Scattering, CPAM 2012, proposition 2.5.

    Args:
        scales: Number J of scales, 1 to 4; each side of the image is at least ``2^J``.
        orientations: Number L of orientations.
        order: Greatest number of wavelets on a path.

    Guarantees:
        * ``||y|| <= ||x||``, and the map and its Jacobian have constant 1, at zero inputs too.
        * Samples and channels do not mix.
    """

    linear_backward = True
    convolves = True
    scales = Setting[int]()
    orientations = Setting[int]()
    order = Setting[int]()

    def __init__(
        self, scales: int = 2, orientations: int = 8, order: int = 2, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.scales = count("scales", scales)
        self.orientations = count("orientations", orientations)
        self.order = count("order", order)
        if self.scales > _MOST_SCALES:
            raise InvalidValue(
                "So many scales take too long to prove",
                received=scales,
                fix=f"Use 1 to {_MOST_SCALES}",
            )

    def build(self, input_shape: Any) -> None:
        """Makes the filters of each level and proves their norms.

        Raises:
            InvalidValue: If an image is too small for its coarsest wavelets.
        """
        shape = sample_shape(input_shape)
        check_rank(shape, 3)
        if min(shape[:2]) < 2**self.scales:
            raise InvalidValue(
                f"Each side of the image must be at least {2**self.scales}",
                received=shape,
                fix="Use fewer scales",
            )
        sides = [_halved(shape, level) for level in range(self.scales)]
        whole = [
            wavelets.morlet_bank(self.scales - r, self.orientations) for r in range(len(sides))
        ]
        coarse = [wavelets.without_finest(bank) for bank in whole]
        self._first = wavelets.scaled_bank(whole[0], sides[0], self.compute_dtype)
        self._later = [
            wavelets.scaled_bank(bank, side, self.compute_dtype)
            for bank, side in zip(coarse, sides, strict=True)
        ]
        pairs = zip([self._first, *self._later], [sides[0], *sides], strict=True)
        gain = max(1.0, *(wavelets.bank_norm(bank, side) for bank, side in pairs))
        self._gain = gain ** (self.order + 1)

    def call(self, inputs: Any) -> Any:
        """The coefficients, by path and then by channel in the last axis."""
        x = ops.cast(inputs, self.compute_dtype)
        channels = sample_shape(inputs.shape)[-1]
        images = ops.reshape(ops.transpose(x, (0, 3, 1, 2)), (-1, *x.shape[1:3], 1))
        maps = self._scatter(images, self._first, 0, self.order)
        parts = ops.reshape(maps, (-1, channels, *maps.shape[1:]))
        moved = ops.transpose(parts, (0, 2, 3, 4, 1))
        return ops.reshape(moved, (-1, *self.compute_output_shape(inputs.shape)[1:]))

    def _scatter(self, images: Any, bank: wavelets.Bank, level: int, order: int) -> Any:
        """(m, rows, columns, 1) at the resolution of a level to (m, rows', columns', paths)."""
        parts = [_read(images, bank[-1], 2 ** (len(bank) - 1))]
        for scale, kernels in enumerate(bank[:-1] if order else []):
            if kernels.shape[-1]:
                moduli = _moduli(images, kernels, 2**scale)
                apart = ops.reshape(
                    ops.transpose(moduli, (0, 3, 1, 2)), (-1, *moduli.shape[1:3], 1)
                )
                finer = level + scale
                found = self._scatter(apart, self._later[finer], finer, order - 1)
                parts.append(_joined(found, self.orientations))
        return ops.concatenate(parts, axis=-1)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """``ceil(n / 2^J)`` positions an axis, ``C`` channels for each path."""
        rows, columns, channels = sample_shape(input_shape)
        sides = _halved((rows, columns), self.scales)
        return (input_shape[0], *sides, channels * self.paths)

    @property
    def paths(self) -> int:
        """Number of increasing sequences of at most ``order`` scales, with orientations."""
        lengths = range(min(self.order, self.scales) + 1)
        return sum(math.comb(self.scales, m) * self.orientations**m for m in lengths)

    def forward_bound(self, x: float) -> float:
        """``x``: 0 is mapped to 0."""
        return times(self._gain, x)

    def backward_bound(self, x: float, g: float) -> float:
        """``g``; none where squares may overflow."""
        return times(self._gain, g) if x < math.inf else math.inf

    def lipschitz(self, x: float) -> float:
        """1."""
        return self._gain

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """Each level is off by ``gamma(n)`` times its map with absolute filters.

        Forward n is at most the taps of a filter, backward those of all filters, whose
        contributions are added up.
        """
        banks = [self._first, *self._later]
        level = max(
            gamma(wavelets.taps(b) + 32, unit) * (1 + wavelets.absolute_norm(b)) for b in banks
        )
        return (1.0 + level) ** (self.order + 1) - 1.0

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "scales": self.scales,
            "orientations": self.orientations,
            "order": self.order,
        }


def _halved(sides: Any, times_halved: int) -> tuple[int, int]:
    step = 2**times_halved
    return -(-sides[0] // step), -(-sides[1] // step)


def _read(images: Any, kernels: np.ndarray, stride: int) -> Any:
    """The correlations with all filters at every ``stride``-th position from the first one."""
    radius = len(kernels) // 2
    around = ops.pad(images, [(0, 0), (radius, radius), (radius, radius), (0, 0)])
    filters = ops.convert_to_tensor(kernels[:, :, None, :], dtype=images.dtype)
    return ops.conv(around, filters, strides=stride, padding="valid", data_format="channels_last")


def _moduli(images: Any, kernels: np.ndarray, stride: int) -> Any:
    parts = _read(images, kernels, stride)
    half = kernels.shape[-1] // 2
    return smooth_norm(ops.square(parts[..., :half]) + ops.square(parts[..., half:]))


def _joined(found: Any, orientations: int) -> Any:
    """(m L, rows, columns, paths) to (m, rows, columns, L paths)."""
    rows, columns, paths = found.shape[1:]
    apart = ops.reshape(found, (-1, orientations, rows, columns, paths))
    return ops.reshape(
        ops.transpose(apart, (0, 2, 3, 1, 4)), (-1, rows, columns, orientations * paths)
    )
