"""Certified radii from logits: no perturbation of smaller Euclidean norm changes the class.

Proof. Let z be the exact l-Lipschitz network and c the computed one, ``||c - z|| <= e`` everywhere.
For ``||x' - x|| <= r``, ``||c(x') - c(x)|| <= l r + 2 e``. The margin between classes k and i is
``<u_k - u_i, c>`` with unit vectors u, and ``||u_k - u_i|| = sqrt(2)``, so it moves by at most
``sqrt(2) (l r + 2 e)`` and stays positive while r is below ``(margin / sqrt(2) - 2 e) / l``. If
only each logit alone is l-Lipschitz the margin moves by ``2 l r + 2 sqrt(2) e``; a single logit
moves by ``l r + 2 e``, and so keeps its sign while r is below ``(|logit| - 2 e) / l``.

Source: Y. Tsuzuku, I. Sato, M. Sugiyama, Lipschitz-Margin Training, NeurIPS 2018; the rounding term
is ours. Every operation below is one IEEE operation in float64 followed by one step of
``nextafter`` to the safe side, so a returned radius is never above the true quotient.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from lipdp.errors import InvalidData, InvalidValue
from lipdp.numerics import gamma, unit_roundoff


def non_negative(name: str, value: float) -> float:
    """The value as a float in ``[0, inf]``.

    Raises:
        InvalidValue: If it is negative, NaN or no number.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not number >= 0.0:
        raise InvalidValue(
            f"{name} must be a number of at least 0", received=value, fix="Pass a proved bound"
        )
    return number


def logit_matrix(logits: Any, *, one_logit: bool) -> np.ndarray:
    """Logits as float64, shape (n, K); a vector (n,) is one logit a sample if that is asked for.

    Raises:
        InvalidData: If the shape is another one.
    """
    z = np.asarray(logits, dtype=np.float64)
    if one_logit and z.ndim == 1:
        z = z[:, None]
    if z.ndim != 2 or z.shape[1] == 0 or (one_logit and z.shape[1] != 1):
        wanted = "(n,) or (n, 1)" if one_logit else "(n, K)"
        raise InvalidData(
            f"The logits must have shape {wanted}",
            received=z.shape,
            fix='Use kind="binary" for one logit a sample and a row of K logits otherwise',
        )
    return z


def predicted_ids(logits: np.ndarray) -> np.ndarray:
    """Predicted class of each row: the greatest logit, or whether the single one is positive."""
    if logits.shape[1] == 1:
        return (logits[:, 0] > 0.0).astype(np.int64)
    return logits.argmax(axis=1)


def class_ids(labels: Any, logits: np.ndarray) -> np.ndarray:
    """Class ids, int64, shape (n,), from ids, one-hot rows or (None) the predictions.

    Raises:
        InvalidData: If the labels are not classes of these logits.
    """
    if labels is None:
        return predicted_ids(logits)
    y = np.asarray(labels)
    rows, classes = len(logits), max(2, logits.shape[1])
    if y.shape == (rows, 1):
        y = y[:, 0]
    if y.shape == (rows, classes):
        y = _from_one_hot(y)
    if y.shape != (rows,):
        raise InvalidData(
            f"The labels must have shape ({rows},) or ({rows}, {classes})",
            received=y.shape,
            fix="Pass one class id or one one-hot row a sample",
        )
    return _checked_ids(y, classes)


def label_matrix(labels: Any, logits: np.ndarray) -> np.ndarray:
    """0 or 1 for each label, int64, shape (n, K), as given or (None) as predicted.

    Raises:
        InvalidData: If the labels are not such a matrix.
    """
    if labels is None:
        return (logits > 0.0).astype(np.int64)
    y = np.asarray(labels)
    if y.ndim == 1 and logits.shape[1] == 1:
        y = y[:, None]
    if y.shape != logits.shape or not (y.dtype.kind in "biuf" and ((y == 0) | (y == 1)).all()):
        raise InvalidData(
            f"The labels of a multilabel model must be 0 or 1, shape {logits.shape}",
            received=y.shape,
            fix="Pass one column a label",
        )
    return y.astype(np.int64)


def logit_margins(logits: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """``z_k - z_i`` for class k of each row, shape (n, K), infinite at i = k; ``(n, 1)`` if K = 1.

    Each entry carries one float64 rounding. A row with a non-finite logit is ``-inf``.
    """
    if logits.shape[1] == 1:
        margins = np.where(ids[:, None] == 1, logits, -logits)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            margins = np.take_along_axis(logits, ids[:, None], axis=1) - logits
        np.put_along_axis(margins, ids[:, None], np.inf, axis=1)
    finite = np.isfinite(logits).all(axis=1, keepdims=True)
    return np.where(finite, margins, -np.inf)


def _from_one_hot(rows: np.ndarray) -> np.ndarray:
    if not (((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all()):
        raise InvalidData(
            "Labels with one column a class must be one-hot",
            fix="Pass class ids instead; if a row may have several labels, certify each label by "
            'certify(model, x, y, task="multilabel")',
        )
    return rows.argmax(axis=1)


def _checked_ids(y: np.ndarray, classes: int) -> np.ndarray:
    numeric = y.dtype.kind in "biuf"
    if not (numeric and np.isin(y, np.arange(classes)).all()):
        raise InvalidData(
            f"The labels must be class ids 0 to {classes - 1}",
            received=y[:8].tolist(),
            fix="Map the labels to ids first (binary labels are 0 and 1)",
        )
    return y.astype(np.int64)


Kind = Literal["joint", "per-logit", "binary"]

_KINDS = ("joint", "per-logit", "binary")
_ROOT_TWO = math.nextafter(math.sqrt(2.0), math.inf)


def radii(
    logits: Any,
    labels: Any = None,
    *,
    lipschitz: float,
    kind: Kind = "joint",
    error: float = 0.0,
) -> np.ndarray:
    """Certified radius of each sample.

    Args:
        logits: Shape (n, K), or (n, 1) for one binary logit of threshold 0; (n,) if ``kind`` is
            ``"binary"``. A row with a non-finite entry has radius 0.
        labels: Class ids, shape (n,), or one-hot rows, shape (n, K); binary labels are 0 and 1.
            A row whose label is not the strict maximum has radius 0. Without labels the predicted
            class is certified.
        lipschitz: Euclidean Lipschitz constant of the network; ``inf`` certifies nothing.
        kind: What is ``lipschitz``-Lipschitz: ``"joint"`` the vector of logits, ``"per-logit"``
            each logit on its own, ``"binary"`` the single logit. With one logit all three agree.
        error: Bound of ``||computed logits - exact logits||`` over all inputs.

    Returns:
        Float64 radii, shape (n,), in units of the network's input. No perturbation of Euclidean
        norm strictly below the radius changes the class.

    Raises:
        InvalidValue: If an argument is outside its domain.
        InvalidData: If logits or labels have the wrong shape or values.
    """
    _check_kind(kind)
    z = logit_matrix(logits, one_logit=kind == "binary")
    margins = logit_margins(z, class_ids(labels, z))
    slope = non_negative("lipschitz", lipschitz)
    noise = 2.0 * non_negative("error", error)
    if z.shape[1] > 1:
        noise = _up(_ROOT_TWO * noise)
        slope = 2.0 * slope if kind == "per-logit" else _up(_ROOT_TWO * slope)
    return _quotient(_less(margins.min(axis=1), noise), slope)


def pairwise_radii(
    logits: Any,
    head_kernel: Any,
    *,
    lipschitz_rest: float,
    labels: Any = None,
    error: float = 0.0,
) -> np.ndarray:
    """Certified radii through a dense last layer: ``min_i margin_i / (l_rest ||w_k - w_i||)``.

    The exact margin is ``<w_k - w_i, h(x)> + b_k - b_i`` with h ``lipschitz_rest``-Lipschitz, so it
    is ``lipschitz_rest * ||w_k - w_i||``-Lipschitz (Cauchy-Schwarz).

    Args:
        logits: Computed logits, shape (n, K), K at least 2.
        head_kernel: Kernel of the last layer, shape (features, K).
        lipschitz_rest: Lipschitz constant of everything before the last layer.
        labels: As in ``radii``.
        error: As in ``radii``, for the whole network.

    Returns:
        Float64 radii, shape (n,).

    Raises:
        InvalidValue: If a number is outside its domain.
        InvalidData: If logits, kernel or labels have the wrong shape or values.
    """
    z = logit_matrix(logits, one_logit=False)
    rest = non_negative("lipschitz_rest", lipschitz_rest)
    distances = _column_distances(np.asarray(head_kernel, dtype=np.float64), z.shape[1])
    ids = class_ids(labels, z)
    noise = _up(_ROOT_TWO * (2.0 * non_negative("error", error)))
    if math.isinf(rest):
        return np.zeros(len(z))
    with np.errstate(over="ignore"):
        products = np.nextafter(rest * distances, np.inf)
    slopes = np.where((distances == 0.0) | (rest == 0.0), 0.0, products)
    return _quotient(_less(logit_margins(z, ids), noise), slopes[ids]).min(axis=1)


def label_radii(
    logits: Any, labels: Any = None, *, lipschitz: Any, error: float = 0.0
) -> np.ndarray:
    """Certified radius of each label of each sample: ``(|z_k| - 2 e) / l_k``.

    Args:
        logits: Shape (n, K); label k is there if its logit is above 0. A row with a non-finite
            entry has radius 0.
        labels: 0 or 1 for each label, shape (n, K). A label whose prediction is wrong has radius
            0. Without labels the predicted ones are certified.
        lipschitz: Lipschitz constant of each logit, one for all or shape (K,).
        error: Bound of ``||computed logits - exact logits||`` over all inputs.

    Returns:
        Float64 radii, shape (n, K). No perturbation of Euclidean norm strictly below radius
        ``[i, k]`` changes label k of sample i.

    Raises:
        InvalidValue: If a number is outside its domain.
        InvalidData: If logits or labels have the wrong shape or values.
    """
    z = logit_matrix(logits, one_logit=False)
    noise = 2.0 * non_negative("error", error)
    slopes = np.asarray([non_negative("lipschitz", one) for one in np.ravel(lipschitz)])
    if len(slopes) not in (1, z.shape[1]):
        raise InvalidValue(
            "lipschitz must be one number, or one for each logit",
            received=(len(slopes), z.shape[1]),
            fix="Pass a vector of shape (K,)",
        )
    margins = np.where(label_matrix(labels, z) == 1, z, -z)
    finite = np.isfinite(z).all(axis=1, keepdims=True)
    return _quotient(_less(np.where(finite, margins, -np.inf), noise), slopes)


def label_slopes(head_kernel: Any, *, lipschitz_rest: float) -> np.ndarray:
    """Lipschitz constant of each logit through a dense last layer: ``l_rest ||w_k||``.

    Args:
        head_kernel: Kernel of the last layer, shape (features, K).
        lipschitz_rest: Lipschitz constant of everything before the last layer.

    Returns:
        Upper bounds, shape (K,).

    Raises:
        InvalidValue: If the constant is negative or NaN.
    """
    rest = non_negative("lipschitz_rest", lipschitz_rest)
    kernel = np.asarray(head_kernel, dtype=np.float64)
    if math.isinf(rest) or not np.isfinite(kernel).all():
        return np.full(kernel.shape[-1], np.inf)
    with np.errstate(over="ignore"):
        return _up(rest * _norms(kernel))


def _check_kind(kind: str) -> None:
    if kind not in _KINDS:
        raise InvalidValue(
            "There is no such kind of Lipschitz constant",
            received=kind,
            fix=f"Use one of: {', '.join(_KINDS)}",
        )


def _column_distances(kernel: np.ndarray, classes: int) -> np.ndarray:
    """Upper bounds of ``||w_k - w_i||``, shape (K, K); exactly 0 where the columns are equal."""
    if kernel.ndim != 2 or kernel.shape[1] != classes or classes < 2:
        raise InvalidValue(
            "The kernel of the last layer must have shape (features, K) with K >= 2 logits",
            received=(kernel.shape, classes),
            fix="Pass the kernel of the layer that computed these logits",
        )
    if not np.isfinite(kernel).all():
        raise InvalidValue("The kernel of the last layer has a non-finite entry", fix="Check it")
    with np.errstate(over="ignore"):
        return np.stack([_norms(kernel - kernel[:, [k]]) for k in range(classes)])


def _norms(columns: np.ndarray) -> np.ndarray:
    # Scaled so that squares neither overflow nor vanish; one rounding a difference, quotient,
    # square, sum, root and product.
    scale = np.abs(columns).max(axis=0, initial=0.0)
    slack = 1.0 + gamma(2 * len(columns) + 16, unit_roundoff("float64"))
    with np.errstate(over="ignore", invalid="ignore"):
        unit = columns / np.where(scale > 0.0, scale, 1.0)
        lengths = scale * np.sqrt(np.square(unit).sum(axis=0)) * slack
    bounds = np.where(np.isnan(lengths), np.inf, _up(lengths))
    return np.where(scale > 0.0, bounds, 0.0)


def _up(value: Any) -> Any:
    return np.where(np.equal(value, 0.0), value, np.nextafter(value, np.inf))


def _less(margins: np.ndarray, noise: Any) -> np.ndarray:
    """Lower bound of exact margins minus noise; the margins carry one rounding."""
    lower = np.nextafter(margins, -np.inf)
    return np.where(np.equal(noise, 0.0), lower, np.nextafter(lower - noise, -np.inf))


def _quotient(margins: np.ndarray, slopes: Any) -> np.ndarray:
    """Lower bound of ``margins / slopes``; 0 where the margin is not positive (or NaN)."""
    positive = np.where(margins > 0.0, margins, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = np.nextafter(positive / slopes, -np.inf)
    proved = np.where(np.equal(slopes, 0.0), np.inf, np.maximum(quotient, 0.0))
    return np.where(positive > 0.0, proved, 0.0)
