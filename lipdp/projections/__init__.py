"""Keras constraints that keep a weight in a norm ball, rounding included, and proved norms."""

from lipdp.projections.balls import (
    ChannelBall,
    FrobeniusProjection,
    L2Ball,
    MaxBall,
    UnitColumns,
    greatest_entry_bound,
)
from lipdp.projections.base import Projection
from lipdp.projections.norms import (
    circular_norm_bound,
    circular_norm_work,
    depthwise_circular_norm_bound,
    frobenius_norm_bound,
    spectral_norm_bound,
)
from lipdp.projections.spectral import AOLProjection, BjorckProjection, SpectralProjection

__all__ = [
    "AOLProjection",
    "BjorckProjection",
    "ChannelBall",
    "FrobeniusProjection",
    "L2Ball",
    "MaxBall",
    "Projection",
    "SpectralProjection",
    "UnitColumns",
    "circular_norm_bound",
    "circular_norm_work",
    "depthwise_circular_norm_bound",
    "frobenius_norm_bound",
    "greatest_entry_bound",
    "spectral_norm_bound",
]
