"""Non-private logistic regression on the same rows, for comparison."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from lipdp.certificates import auroc, macro_auroc
from lipdp.experiment.rows import Rows
from lipdp.preprocessing import limited

_RIDGE = 1e-6
#: Rows times features that are fitted at most, 80 MB; of more rows a part.
_MOST = 10_000_000
#: Numbers that are read at a time.
_CHUNK = 1_000_000


def logistic_regression(rows: Rows) -> dict[str, float | None]:
    """Held-out accuracy and AUROC of a logistic regression without privacy.

    Fitted by L-BFGS to the mean cross-entropy with a ridge of 1e-6 against the flat directions of
    one-hot columns. It reads the training rows exactly: never publish it beside epsilon. Of many
    large rows a part is enough for it, so that it takes seconds; ``rows`` says how many.
    """
    classes, count = len(rows.encoding.classes), len(rows.x_train)
    most = max(100, _MOST // rows.encoding.num_features)
    kept = np.arange(count) if count <= most else limited(count, most, seed=0)
    x = np.empty((len(kept), rows.encoding.num_features))
    for part in _parts(x.shape):
        x[part] = rows.x_train[kept[part]]
    weights = _fit(x, np.eye(classes)[rows.y_train[kept]])
    parts = _parts((len(rows.x_test), x.shape[1]))
    logits = np.concatenate([rows.x_test[part] @ weights for part in parts])
    accuracy = float((logits.argmax(axis=1) == rows.y_test).mean())
    return {"accuracy": accuracy, "auroc": _auroc(logits, rows.y_test), "rows": float(len(kept))}


def _parts(shape: tuple[int, ...]) -> list[slice]:
    """Slices of rows that are no more numbers than a chunk."""
    step = max(1, _CHUNK // shape[1])
    return [slice(start, start + step) for start in range(0, shape[0], step)]


def _fit(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    shape = (x.shape[1], targets.shape[1])

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        logits = x @ weights
        loss = -np.sum(targets * log_softmax(logits, axis=1)) / len(x)
        gradient = x.T @ (softmax(logits, axis=1) - targets) / len(x) + _RIDGE * weights
        return loss + 0.5 * _RIDGE * float(flat @ flat), gradient.ravel()

    start = np.zeros(shape[0] * shape[1])
    fit = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return fit.x.reshape(shape)


def _auroc(logits: np.ndarray, labels: np.ndarray) -> float | None:
    if logits.shape[1] == 2:
        return auroc(logits[:, 1] - logits[:, 0], labels)
    return macro_auroc(logits, labels)
