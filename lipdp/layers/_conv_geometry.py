"""Proved norms of convolutions, by counting and by Fourier analysis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lipdp.layers._windows import Windows, coverage
from lipdp.projections import circular_norm_bound, frobenius_norm_bound, spectral_norm_bound

#: Multiplications beyond which the Fourier bound would take more than a second or two.
_AFFORDABLE = 5e8


@dataclass(frozen=True)
class ConvGeometry:
    """A convolution of a channels-last tensor, or the transpose of one.

    With P(x) the matrix of all patches, (output positions, taps and channels), the convolution by a
    kernel K is ``P(x) K`` and ``||P(x)||_F <= sqrt(kappa) ||x||``. So for K as a matrix of shape
    (taps C_in, C_out):

    * its norm is at most ``sqrt(kappa) ||K||_2``;
    * the gradient of K, ``P(x)^T G``, has norm at most ``sqrt(kappa) ||x|| ||G||``.

    A transposed convolution has the norm of the convolution that it transposes, and the gradient
    ``P(u)^T x`` at a cotangent u. Groups act on separate channels: the greatest norm counts.

    Attributes:
        windows: Of each spatial axis, on the side of the tensor that they slide over.
        groups: Blocks of channels that do not mix.
    """

    windows: tuple[Windows, ...]
    groups: int = 1

    @property
    def kappa(self) -> int:
        """Greatest number of (window, tap) pairs that read one position."""
        return coverage(self.windows)

    @property
    def taps(self) -> int:
        """Positions that one window reads."""
        return math.prod(axis.window for axis in self.windows)

    @property
    def positions(self) -> int:
        """Number of windows."""
        return math.prod(axis.count for axis in self.windows)

    def norm(self, kernel: np.ndarray) -> float:
        """Proved norm of the convolution: the smaller of the two bounds."""
        return min(self.counting_norm(kernel), self.fourier_norm(kernel))

    def counting_norm(self, kernel: np.ndarray) -> float:
        """``sqrt(kappa) ||K||_2``, the simple bound."""
        return math.sqrt(self.kappa) * max(map(spectral_norm_bound, self.blocks(kernel)))

    def absolute_norm(self, kernel: np.ndarray) -> float:
        """Bound of the norm with all kernel entries made positive: ``sqrt(kappa) ||K||_F``."""
        return math.sqrt(self.kappa) * max(map(frobenius_norm_bound, self.blocks(kernel)))

    def fourier_norm(self, kernel: np.ndarray) -> float:
        """Bound by the circular convolution on a torus; infinite where it would take long.

        Put the axis on a circle of ``n + p`` positions, p those that padding adds, with zeros in
        the p others. Windows that start before the axis or end behind it read these zeros, whatever
        the split of p, and start at positions of their own. So a zero-padded convolution is a
        restriction of the circular one, whose rows the strides thin out. One with circular padding
        is itself, on the axis, where its windows fit.
        """
        torus = tuple(map(_circle, self.windows))
        inner, outer = kernel.shape[-2], kernel.shape[-1] // self.groups
        work = math.prod(torus) * inner * outer * (min(inner, outer) + self.taps) * self.groups
        fits = all(a.reach <= size for a, size in zip(self.windows, torus, strict=True))
        if work > _AFFORDABLE or not fits:
            return math.inf
        dilation = tuple(axis.dilation for axis in self.windows)
        values = np.ascontiguousarray(kernel, dtype=np.float64)
        return _fourier_norm(values.tobytes(), values.shape, torus, dilation, self.groups)

    def blocks(self, kernel: np.ndarray) -> list[np.ndarray]:
        """The kernel of each group."""
        return np.split(kernel, self.groups, axis=-1)


def _circle(axis: Windows) -> int:
    """Positions of a circle on which the windows read what they read on the axis."""
    return axis.size + (0 if axis.padding == "circular" else axis.total_padding)


@lru_cache(maxsize=32)
def _fourier_norm(
    data: bytes,
    shape: tuple[int, ...],
    torus: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> float:
    """Kept, because the bounds of a frozen kernel ask for it many times."""
    kernel = np.frombuffer(data, dtype=np.float64).reshape(shape)
    return circular_norm_bound(kernel, torus, dilation=dilation, groups=groups)


def per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """One number for all axes, or one for each, as a tuple."""
    return tuple(value) if isinstance(value, list | tuple) else (value,) * rank
