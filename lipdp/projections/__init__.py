"""Keras constraints that keep a weight in a norm ball, rounding included, and proved norms."""

from lipdp.projections._norms import frobenius_norm_bound, spectral_norm_bound
from lipdp.projections.base import Projection
from lipdp.projections.bjorck_projection import BjorckProjection
from lipdp.projections.frobenius_projection import FrobeniusProjection
from lipdp.projections.l2_ball import L2Ball
from lipdp.projections.spectral_projection import SpectralProjection

__all__ = [
    "BjorckProjection",
    "FrobeniusProjection",
    "L2Ball",
    "Projection",
    "SpectralProjection",
    "frobenius_norm_bound",
    "spectral_norm_bound",
]
