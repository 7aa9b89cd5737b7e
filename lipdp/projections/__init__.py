"""Keras constraints that keep a weight in a norm ball, rounding included, and proved norms."""

from lipdp.projections._fourier import (
    circular_norm_bound,
    circular_norm_work,
    depthwise_circular_norm_bound,
)
from lipdp.projections._norms import frobenius_norm_bound, spectral_norm_bound
from lipdp.projections.aol_projection import AOLProjection
from lipdp.projections.base import Projection
from lipdp.projections.bjorck_projection import BjorckProjection
from lipdp.projections.channel_ball import ChannelBall
from lipdp.projections.frobenius_projection import FrobeniusProjection
from lipdp.projections.l2_ball import L2Ball
from lipdp.projections.max_ball import MaxBall, greatest_entry_bound
from lipdp.projections.spectral_projection import SpectralProjection
from lipdp.projections.unit_columns import UnitColumns

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
