"""Non-private logistic regression on the same rows, for comparison."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from lipdp.certificates import auroc, macro_auroc
from lipdp.experiment.rows import Rows

_RIDGE = 1e-6


def logistic_regression(rows: Rows) -> dict[str, float | None]:
    """Held-out accuracy and AUROC of a logistic regression without privacy.

    Fitted by L-BFGS to the mean cross-entropy with a ridge of 1e-6 against the flat directions of
    one-hot columns. It reads the training rows exactly: never publish it beside epsilon.
    """
    classes = len(rows.schema.classes)
    x = rows.x_train.astype(np.float64)
    weights = _fit(x, np.eye(classes)[rows.y_train])
    logits = rows.x_test.astype(np.float64) @ weights
    accuracy = float((logits.argmax(axis=1) == rows.y_test).mean())
    return {"accuracy": accuracy, "auroc": _auroc(logits, rows.y_test)}


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
