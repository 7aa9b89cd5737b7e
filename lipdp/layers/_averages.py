"""Norms of averages over sliding windows, axis by axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lipdp.layers._windows import Windows
from lipdp.projections import spectral_norm_bound

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
