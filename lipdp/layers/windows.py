"""Which positions of an axis sliding windows read, and the norms of averages over them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.projections import spectral_norm_bound

PADDINGS = ("valid", "same", "causal", "circular")


@dataclass(frozen=True)
class Windows:
    """Sliding windows along one axis.

    Attributes:
        size: Length n of the axis.
        window: Taps k of a window.
        stride: Distance of two windows.
        dilation: Distance of two taps.
        padding: "valid", "same" (zeros around, ``ceil(n / stride)`` windows), "causal" (zeros in
            front) or "circular" (as "same", but the axis is closed to a circle).
    """

    size: int
    window: int
    stride: int = 1
    dilation: int = 1
    padding: str = "valid"

    def __post_init__(self) -> None:
        if self.padding not in PADDINGS:
            raise InvalidValue(
                "There is no such padding", received=self.padding, fix=f"Use one of {PADDINGS}"
            )
        if self.padding == "valid" and self.size < self.reach:
            raise InvalidValue(
                "A window is longer than its axis",
                received={"axis": self.size, "window": self.reach},
                fix="Use padding='same' or a smaller window",
            )

    @property
    def reach(self) -> int:
        """Distance from the first to the last tap, both included: ``(k - 1) d + 1``."""
        return (self.window - 1) * self.dilation + 1

    @property
    def count(self) -> int:
        """Number of windows."""
        room = self.size - self.reach + 1 if self.padding == "valid" else self.size
        return -(-room // self.stride)

    @property
    def total_padding(self) -> int:
        """Positions that are added to the axis, as TensorFlow and Keras do."""
        if self.padding == "valid":
            return 0
        if self.padding == "causal":
            return self.reach - 1
        return max((self.count - 1) * self.stride + self.reach - self.size, 0)

    def readings(self, left: int) -> np.ndarray:
        """Position that each tap reads, shape (count, window); -1 for padding.

        Args:
            left: Positions added in front of the axis.
        """
        starts = np.arange(self.count)[:, None] * self.stride - left
        read = starts + np.arange(self.window)[None, :] * self.dilation
        if self.padding == "circular":
            return read % self.size
        return np.where((read >= 0) & (read < self.size), read, -1)

    def layouts(self) -> Iterator[np.ndarray]:
        """The readings for every way in which a backend may split the padding."""
        total = self.total_padding
        lefts = range(total + 1) if self.padding == "same" else (total,)
        lefts = (total // 2,) if self.padding == "circular" else lefts
        yield from (self.readings(left) for left in lefts)

    @cached_property
    def coverage(self) -> int:
        """Greatest number of (window, tap) pairs that read one position, by enumeration."""
        most = 0
        for read in self.layouts():
            most = max(most, int(np.bincount(read[read >= 0], minlength=1).max()))
            if most == self.coverage_formula:
                break
        return most

    @property
    def coverage_formula(self) -> int:
        """Closed-form bound of ``coverage``: ``min(count, ceil(k / (s / gcd(s, d))))``.

        A tap reads a position from one window at most. Taps t and t' read the same one only if ``(t
        - t') d`` is a multiple of s, that is, ``t - t'`` one of ``s / gcd(s, d)``; at most ``ceil(k
        / (s / gcd(s, d)))`` taps agree modulo that. On a circle this needs a stride that divides
        the axis, and a window wider than the axis reads a position several times, so that the
        number of windows is no bound.
        """
        spaced = -(-self.window // (self.stride // math.gcd(self.stride, self.dilation)))
        if self.padding != "circular":
            return min(self.count, spaced)
        return self.window if self.size % self.stride else spaced


def windows_of(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: str,
    dilation: Sequence[int] | None = None,
) -> tuple[Windows, ...]:
    """The windows of each axis of a grid.

    Args:
        sizes: Lengths of the axes; channels behind them are left out.
        window: Taps on each axis.
        strides: Distance of two windows on each.
        padding: As in ``Windows``.
        dilation: Distance of two taps on each; 1 if None.
    """
    spacing = [1] * len(window) if dilation is None else dilation
    axes = zip(sizes, window, strides, spacing, strict=False)
    return tuple(Windows(n, k, s, d, padding) for n, k, s, d in axes)


def coverage(windows: Sequence[Windows]) -> int:
    """kappa: the greatest number of (window, tap) pairs that read one position of a grid.

    Over the axes of a grid the numbers multiply, and so do their maxima. The matrix P(x) of all
    patches has ``||P(x)||_F^2 = sum_p (pairs that read p) x_p^2 <= kappa ||x||^2``.
    """
    return math.prod(axis.coverage for axis in windows)


_DENSE = 512  # axes up to this size get the norm of their whole matrix


def _replicated(readings: np.ndarray, axis: Windows, left: int) -> np.ndarray:
    """The readings where padding repeats the border, as Keras pools on PyTorch."""
    starts = np.arange(axis.count)[:, None] * axis.stride - left
    copies = np.clip(starts + np.arange(axis.window)[None, :], 0, axis.size - 1)
    return np.where(readings < 0, copies, readings)


def real_mean_norm(axes: Sequence[Windows], replicate: bool = False) -> float:
    """Bound of the spectral norm of averages over the elements of each window, without padding.

    The operator is the Kronecker product of one matrix for each axis, so its norm is the product of
    their norms. Padding is split as all backends do, ``total // 2`` in front.

    Args:
        axes: The windows of each axis.
        replicate: Whether padding repeats the border and counts, instead of being left out.
    """
    return math.prod(_real_mean_norm(axis, replicate) for axis in axes)


def _real_mean_norm(axis: Windows, replicate: bool) -> float:
    left = axis.total_padding // 2
    readings = axis.readings(left)
    if replicate:
        readings = _replicated(readings, axis, left)
    present = np.sum(readings >= 0, axis=1, keepdims=True)
    return _operator_norm(readings, 1.0 / present, axis.size)


def padded_sum_norm(axes: Sequence[Windows]) -> float:
    """Bound of the spectral norm of sums over windows of the zero-padded tensor."""
    ones = (
        (axis.readings(axis.total_padding // 2), np.ones((axis.count, 1)), axis.size)
        for axis in axes
    )
    return math.prod(_operator_norm(*one) for one in ones)


def _operator_norm(readings: np.ndarray, weights: np.ndarray, size: int) -> float:
    """Norm bound of the matrix A that adds ``weights[o]`` for each position that window o reads.

    ``||A||_2^2 <= ||A||_1 ||A||_inf`` (Schur), an equality where no two windows overlap and all are
    alike; overlapping windows of short axes get the proved norm of the matrix itself.
    """
    window, tap = np.nonzero(readings >= 0)
    position, weight = readings[window, tap], weights[window, 0]
    columns = np.bincount(position, weight, minlength=size)
    rows = np.bincount(window, weight)
    schur = math.sqrt(float(columns.max() * rows.max()))
    if size > _DENSE or len(set(position.tolist())) == len(position):
        return schur
    matrix = np.zeros((len(readings), size))
    np.add.at(matrix, (window, position), weight)
    return min(schur, spectral_norm_bound(matrix))
