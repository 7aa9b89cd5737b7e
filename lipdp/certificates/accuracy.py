"""Certified accuracy: the fraction that stays right under every small perturbation."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.certificates.radii import non_negative
from lipdp.errors import InvalidData


def certified_accuracy(radii: Any, radius: float) -> float:
    """Fraction of decisions whose certified radius is strictly above ``radius``.

    At a perturbation of norm equal to the certified radius the margin may be 0, a tie; hence the
    strict inequality. At radius 0 this is the accuracy with ties counted as wrong.

    A decision is the class of a sample, or with several labels each label of a sample: then this is
    the mean over the labels of ``certified_label_accuracy``. The fraction of samples all of whose
    labels stay right is ``certified_accuracy(radii.min(axis=1), radius)``.

    Args:
        radii: Certified radii for the true labels, shape (n,), or (n, K) for K labels a sample; 0
            for a wrong prediction.
        radius: Norm of the perturbations, in the unit of the radii.

    Raises:
        InvalidValue: If ``radius`` is negative or NaN.
        InvalidData: If there are no radii, or one is negative or NaN.
    """
    above = _above(radii, radius)
    return int(above.sum()) / above.size


def certified_label_accuracy(radii: Any, radius: float) -> np.ndarray:
    """For each label, the fraction of samples where it stays right; see ``certified_accuracy``.

    Args:
        radii: As there, shape (n, K).
        radius: As there.

    Returns:
        Shape (K,).

    Raises:
        InvalidValue: If ``radius`` is negative or NaN.
        InvalidData: If there are no radii of labels, or one is negative or NaN.
    """
    above = _above(radii, radius)
    if above.ndim != 2:
        raise InvalidData(
            "These are radii of classes and not of labels",
            received=above.shape,
            fix="Use certified_accuracy",
        )
    return above.sum(axis=0) / len(above)


def _above(radii: Any, radius: float) -> np.ndarray:
    values = np.asarray(radii, dtype=np.float64)
    if values.ndim not in (1, 2) or not values.size or not (values >= 0.0).all():
        raise InvalidData(
            "Certified radii must be numbers of at least 0, a non-empty vector or a matrix",
            received=values.shape,
            fix="Pass the result of lipdp.certificates.radii or label_radii",
        )
    return values > non_negative("radius", radius)
