"""Area under the ROC curve, clean and certified."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import rankdata

from lipdp.certificates.radii import class_ids, logit_matrix, non_negative
from lipdp.errors import InvalidData


def auroc(scores: Any, labels: Any) -> float:
    """Probability that a positive scores above a negative, ties counted half (Mann-Whitney).

    Args:
        scores: Finite scores, shape (n,) or (n, 1).
        labels: 0 or 1, shape (n,).

    Raises:
        InvalidData: If a score is not finite, a label is not 0 or 1, or a class is absent.
    """
    positive, negative = _by_class(scores, labels)
    ranks = rankdata(np.concatenate([positive, negative]))
    smallest = len(positive) * (len(positive) + 1) / 2.0
    return float((ranks[: len(positive)].sum() - smallest) / (len(positive) * len(negative)))


def certified_auroc(
    scores: Any, labels: Any, *, lipschitz: float, radius: float, error: float = 0.0
) -> float:
    """Fraction of (positive, negative) pairs in order after any perturbation of both samples.

    A computed score moves by at most ``l r + 2 e`` (see ``radii``), so a pair stays in strict order
    if ``s+ - s- > 2 l r + 4 e``. Never above ``auroc``. O(n log n).

    Args:
        scores: Finite scores, shape (n,) or (n, 1).
        labels: 0 or 1, shape (n,).
        lipschitz: Lipschitz constant of the score.
        radius: Euclidean norm of the perturbation of each sample.
        error: Bound of ``|computed score - exact score|``.

    Raises:
        InvalidValue: If a number is negative or NaN.
        InvalidData: As in ``auroc``.
    """
    positive, negative = _by_class(scores, labels)
    gap = _gap(
        non_negative("lipschitz", lipschitz),
        non_negative("radius", radius),
        non_negative("error", error),
    )
    # A float strictly below the rounded threshold is below the exact one: rounding is monotone.
    below = np.searchsorted(np.sort(negative), positive - gap, side="left")
    return int(below.sum()) / (len(positive) * len(negative))


def macro_auroc(logits: Any, labels: Any) -> float:
    """Mean one-against-the-rest AUROC over the classes present; one logit is the binary AUROC.

    Args:
        logits: Finite logits, shape (n, K).
        labels: Class ids, shape (n,), or one-hot rows.

    Raises:
        InvalidData: As in ``auroc``; fewer than two classes present.
    """
    z = logit_matrix(logits, one_logit=False)
    ids = class_ids(labels, z)
    if z.shape[1] == 1:
        return auroc(z, ids)
    return float(np.mean([auroc(z[:, k], ids == k) for k in np.unique(ids)]))


def _gap(lipschitz: float, radius: float, error: float) -> float:
    """``2 l r + 4 e`` rounded up; 0 at radius 0 without error, even if l is infinite."""
    still = radius == 0.0 or lipschitz == 0.0
    moved = 0.0 if still else math.nextafter(2.0 * lipschitz * radius, math.inf)
    return moved if error == 0.0 else math.nextafter(moved + 4.0 * error, math.inf)


def _by_class(scores: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    s = logit_matrix(scores, one_logit=True)
    y = class_ids(labels, s)
    if not np.isfinite(s).all():
        raise InvalidData("A score is not finite", fix="Check the model's outputs")
    if len(np.unique(y)) < 2:
        raise InvalidData(
            "The AUROC needs a positive and a negative sample",
            received=np.unique(y).tolist(),
            fix="Use rows of both classes",
        )
    return s[y == 1, 0], s[y == 0, 0]
