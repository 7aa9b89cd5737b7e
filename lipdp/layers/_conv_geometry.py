"""Proved norms of convolutions, by counting and by Fourier analysis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lipdp.layers._windows import Windows, coverage
from lipdp.projections import (
    circular_norm_bound,
    circular_norm_work,
    frobenius_norm_bound,
    spectral_norm_bound,
)

#: Multiplications beyond which the Fourier bound would take more than a second or two. With strides
#: the matrices are fewer and wider, which takes less time for each.
_AFFORDABLE = 5e8
_AFFORDABLE_WITH_STRIDES = 1.5e9


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
        """Bound by circular convolutions on tori; infinite where it would take long.

        Put the axis on a circle of N positions, with zeros behind it. With p positions added in
        front and q behind, a window that starts before the axis or ends behind it reads zeros where
        N is at least ``n + max(p, q)``. Windows start at positions of their own, as ``(count - 1) s
        < n``. So a zero-padded convolution is a restriction of the circular one: of its rows at
        every s-th position, where s divides N, and of all its rows for every N. Backends put one
        half of the padding in front, or of an odd number the smaller or the larger part.

        With circular padding N is n, or where a window is longer a multiple of it: what is repeated
        c times is of norm ``sqrt(c)`` times its own, before the map and behind. The windows start
        at multiples of ``gcd(s, n)``.

        The smaller one of the bounds with and without strides counts.
        """
        ones = (1,) * len(self.windows)
        plain = self._on_torus(kernel, tuple(map(_whole_circle, self.windows)), ones)
        strides = tuple(map(_spacing, self.windows))
        if strides == ones:
            return plain
        return min(plain, self._on_torus(kernel, tuple(map(_circle, self.windows)), strides))

    def _on_torus(
        self, kernel: np.ndarray, torus: tuple[int, ...], strides: tuple[int, ...]
    ) -> float:
        dilation = tuple(axis.dilation for axis in self.windows)
        work = circular_norm_work(
            kernel.shape, torus, strides=strides, dilation=dilation, groups=self.groups
        )
        if work > (_AFFORDABLE_WITH_STRIDES if max(strides) > 1 else _AFFORDABLE):
            return math.inf
        values = np.ascontiguousarray(kernel, dtype=np.float64)
        return _fourier_norm(values.tobytes(), values.shape, torus, strides, dilation, self.groups)

    def blocks(self, kernel: np.ndarray) -> list[np.ndarray]:
        """The kernel of each group."""
        return np.split(kernel, self.groups, axis=-1)


def _spacing(axis: Windows) -> int:
    """Windows of the circle start at the multiples of this."""
    return math.gcd(axis.stride, axis.size) if axis.padding == "circular" else axis.stride


def _whole_circle(axis: Windows) -> int:
    """Positions of a circle on which windows of any stride read what they read on the axis."""
    if axis.padding == "circular":
        return axis.size * -(-axis.reach // axis.size)
    return axis.size + axis.total_padding


def _circle(axis: Windows) -> int:
    """The same, and a multiple of the stride: the least with ``n + max(p, q)`` and all taps."""
    if axis.padding == "circular":
        return _whole_circle(axis)
    total = axis.total_padding
    side = total if axis.padding == "causal" else total - total // 2
    return axis.stride * -(-max(axis.size + side, axis.reach) // axis.stride)


@lru_cache(maxsize=32)
def _fourier_norm(
    data: bytes,
    shape: tuple[int, ...],
    torus: tuple[int, ...],
    strides: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> float:
    """Kept, because the bounds of a frozen kernel ask for it many times."""
    kernel = np.frombuffer(data, dtype=np.float64).reshape(shape)
    return circular_norm_bound(kernel, torus, strides=strides, dilation=dilation, groups=groups)


def per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """One number for all axes, or one for each, as a tuple."""
    return tuple(value) if isinstance(value, list | tuple) else (value,) * rank
