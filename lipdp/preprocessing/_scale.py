"""The public factor that brings rows of unit blocks into the unit ball."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def unit_scale(blocks: int) -> float:
    """``1 / sqrt(blocks)``, rounded down to a float32 with ``blocks * scale^2 <= 1`` exactly.

    A row of that many blocks of norm at most 1, times this scale, has entries of at most ``scale``;
    as rounding is monotone, it is no longer than 1 in float64, nor after a cast to float32.
    """
    scale = np.float32(1.0 / math.sqrt(blocks))
    while blocks * Fraction(float(scale)) ** 2 > 1:
        scale = np.nextafter(scale, np.float32(0.0))
    return float(scale)


def root_below(square: Fraction) -> float:
    """The root of a fraction, rounded down."""
    norm = math.sqrt(square)
    while Fraction(norm) ** 2 > square:
        norm = math.nextafter(norm, 0.0)
    return norm
