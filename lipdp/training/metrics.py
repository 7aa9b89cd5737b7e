"""Metrics of a private model: by their own names, over real rows, with logits in mind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras

from lipdp.certificates import CertifiedAccuracy
from lipdp.errors import UnsafeSetting
from lipdp.losses.base import LipschitzLoss

_SUMS = (
    keras.metrics.Sum,
    keras.metrics.TruePositives,
    keras.metrics.TrueNegatives,
    keras.metrics.FalsePositives,
    keras.metrics.FalseNegatives,
)
#: What the log calls public numbers, which callbacks and names of files may depend on.
_PUBLIC = frozenset({"batch", "epoch", "epsilon"})


def check_names(metrics: Any) -> None:
    """Refuses metrics whose training values would pass for public numbers.

    Args:
        metrics: Metrics, functions and names, in any nest.

    Raises:
        UnsafeSetting: If a name begins with ``val_``, or is that of another public number.
    """
    for metric in keras.tree.flatten(metrics):
        name = _name(metric)
        if name.startswith("val_") or name in _PUBLIC:
            raise UnsafeSetting(
                f"A metric of the training rows called {name!r} would pass for a public number",
                received=metric,
                fix="Give it another name, as in keras.metrics.AUC(name='auc'); validation adds"
                " 'val_' by itself",
            )


def _name(metric: Any) -> str:
    """Under which Keras logs it; what has no name of a metric's becomes small letters with bars."""
    if isinstance(metric, str) or hasattr(metric, "name"):
        return str(getattr(metric, "name", metric))
    name = re.sub(r"\W+", "", getattr(metric, "__name__", type(metric).__name__))
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", name).lower()


def sums_over_rows(metrics: Any) -> list[str]:
    """Those of Keras' metrics that grow with the number of rows; its others are means or ratios.

    Args:
        metrics: Metrics and their names, in any nest.

    Returns:
        Their names.
    """
    return [
        kind.__name__
        for metric in keras.tree.flatten(metrics)
        for kind in _SUMS
        if isinstance(metric, kind) or _is_called(metric, kind.__name__)
    ]


def _is_called(metric: Any, name: str) -> bool:
    return isinstance(metric, str) and metric.replace("_", "").lower() == name.lower()


def metrics_over_rows(metrics: Sequence[Any], num_outputs: int | None) -> list[Any]:
    """The user's metrics, with the string names that assume probabilities made right for a logit.

    On one logit Keras' "accuracy" would threshold at 0.5 instead of 0 and "auc" would clip.

    Args:
        metrics: What was passed to ``compile``.
        num_outputs: Number of logits, or None if the model is not built.

    Raises:
        UnsafeSetting: If a metric has the name of a public number.
    """
    check_names(metrics)
    return [_for_logits(metric) if num_outputs == 1 else metric for metric in metrics]


def certified_metric(
    num_outputs: int | None, loss: LipschitzLoss, radius: float | None
) -> CertifiedAccuracy | None:
    """Certified accuracy at one radius, or None where it means nothing.

    Args:
        num_outputs: Number of logits, or None if the model is not built.
        loss: Says what the logits mean; certificates are about one class a record.
        radius: L2 radius, or None.
    """
    one_class = loss.task not in ("regression", "multilabel") and loss.positions is None
    if radius is None or num_outputs is None or not one_class:
        return None
    return CertifiedAccuracy(radius, lipschitz=float("inf"))


def _for_logits(metric: Any) -> Any:
    if metric in ("accuracy", "acc", "binary_accuracy"):
        return keras.metrics.BinaryAccuracy(name=str(metric), threshold=0.0)
    if isinstance(metric, str) and metric.lower() == "auc":
        return keras.metrics.AUC(name=metric, from_logits=True)
    return metric
