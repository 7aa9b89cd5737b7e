"""The projections of this package."""

from __future__ import annotations

import numpy as np

from lipdp import projections as ps
from lipdp.testing.parts.base import ProjectionPart


def _columns(weight: np.ndarray) -> float:
    """Norm of the longest column."""
    return float(np.max(np.linalg.norm(weight.reshape(-1, weight.shape[-1]), axis=0)))


def _channels(weight: np.ndarray) -> float:
    """Norm of the longest slice along the last axis but one."""
    slices = np.moveaxis(weight, -2, 0)
    return float(np.max(np.linalg.norm(slices.reshape(len(slices), -1), axis=1)))


def _length(weight: np.ndarray) -> float:
    """Norm of all entries."""
    return float(np.linalg.norm(weight.ravel()))


def _greatest(weight: np.ndarray) -> float:
    """Greatest absolute entry."""
    return float(np.max(np.abs(weight)))


PROJECTIONS = (
    ProjectionPart("BjorckProjection", ps.BjorckProjection()),
    ProjectionPart("SpectralProjection", ps.SpectralProjection(radius=0.7)),
    ProjectionPart("AOLProjection", ps.AOLProjection(radius=1.1)),
    ProjectionPart("FrobeniusProjection", ps.FrobeniusProjection(radius=1.3), norm=_length),
    ProjectionPart("L2Ball", ps.L2Ball(0.5), norm=_length),
    ProjectionPart("L2Ball of a vector", ps.L2Ball(0.5), ((4,), (1,)), norm=_length),
    ProjectionPart("MaxBall", ps.MaxBall(0.6), ((4,), (3, 2)), norm=_greatest),
    ProjectionPart("UnitColumns", ps.UnitColumns(radius=0.8), norm=_columns),
    ProjectionPart("ChannelBall", ps.ChannelBall(1.2), ((3, 3, 4, 2), (5, 3)), norm=_channels),
)
