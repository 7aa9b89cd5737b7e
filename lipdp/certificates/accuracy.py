"""Certified accuracy: the fraction that stays right under every small perturbation."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.certificates._margins import non_negative
from lipdp.errors import InvalidData


def certified_accuracy(radii: Any, radius: float) -> float:
    """Fraction of samples whose certified radius is strictly above ``radius``.

    At a perturbation of norm equal to the certified radius the margin may be 0, a tie; hence the
    strict inequality. At radius 0 this is the accuracy with ties counted as wrong.

    Args:
        radii: Certified radii for the true labels, shape (n,), 0 for a wrong prediction.
        radius: Norm of the perturbations, in the unit of the radii.

    Raises:
        InvalidValue: If ``radius`` is negative or NaN.
        InvalidData: If there are no radii, or one is negative or NaN.
    """
    values = np.asarray(radii, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not (values >= 0.0).all():
        raise InvalidData(
            "Certified radii must be a non-empty vector of numbers of at least 0",
            received=values.shape,
            fix="Pass the result of lipdp.certificates.radii",
        )
    return int((values > non_negative("radius", radius)).sum()) / len(values)
