"""A training that left the finite numbers: what happened, what it cost, what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

from lipdp.certificates import Certificates
from lipdp.errors import InvalidState
from lipdp.results.lines import digits_up

_LOWER = "Lower optimizer.learning_rate (dp_sgd.learning_rate, if that is set)"


class DivergenceCallback(keras.callbacks.Callback):
    """Ends a training after an epoch that left weights which are not finite.

    Weights are what the mechanism releases, so that looking at them costs no privacy; the rest of
    the budget is not spent on them. It comes before the backup, which keeps the last finite ones.

    Args:
        ledger: The file of the ledger, to be named.
    """

    def __init__(self, ledger: Path) -> None:
        super().__init__()
        self._ledger = ledger

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Refuses to go on.

        Raises:
            InvalidState: If a weight is not finite.
        """
        check_weights(self.model, self._ledger)


def check_weights(model: keras.Model, ledger: Path) -> None:
    """Refuses a model that no training can bring back.

    Args:
        model: Has the plan and the ledger of its training.
        ledger: The file of the ledger, to be named.

    Raises:
        InvalidState: If a weight is not finite.
    """
    # Of the layers alone: the state of the noise is no weight.
    for variable in (weight for layer in model.layers for weight in layer.weights):
        is_float = keras.backend.is_float_dtype(variable.dtype)
        if is_float and not bool(keras.ops.all(keras.ops.isfinite(variable))):
            raise _refusal(f"The weights are not finite ({variable.path})", model, ledger)


def check_scores(certificates: Certificates, model: keras.Model, ledger: Path) -> None:
    """Refuses scores of held-out rows that cannot be compared.

    Raises:
        InvalidState: If one is not finite.
    """
    bad = int(np.count_nonzero(~np.isfinite(certificates.logits).all(axis=-1)))
    if bad:
        what = f"The scores of {bad} held-out rows are not finite though the weights are"
        raise _refusal(what, model, ledger)


def _refusal(what: str, model: Any, path: Path) -> InvalidState:
    plan, ledger = model.plan, model.ledger
    spent = ledger.epsilon(plan.delta, accountant=plan.budget.accountant)
    optimizer = getattr(model, "optimizer", None)
    return InvalidState(
        f"{what}: the training diverged. Its {ledger.steps} steps spent epsilon {digits_up(spent)}"
        f" at delta {plan.delta:g}, as the ledger {path} records",
        received=None if optimizer is None else _rate(optimizer),
        fix=f"{_LOWER}, and start another run with another --output: --resume would go on with the"
        " same learning rate",
    )


def _rate(optimizer: keras.optimizers.Optimizer) -> str:
    return f"learning_rate={float(optimizer.learning_rate):g}"
