"""Metrics of a private model: by their own names, over real rows, with logits in mind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from lipdp.certificates import CertifiedAccuracy
from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.losses.base import LipschitzLoss

_SUMS = (
    keras.metrics.Sum,
    keras.metrics.TruePositives,
    keras.metrics.TrueNegatives,
    keras.metrics.FalsePositives,
    keras.metrics.FalseNegatives,
)
#: Those of Keras' metrics and losses whose predictions are probabilities.
OF_PROBABILITIES: frozenset[type] = frozenset(
    {
        keras.metrics.AUC,
        keras.metrics.BinaryAccuracy,
        keras.metrics.BinaryCrossentropy,
        keras.metrics.BinaryIoU,
        keras.metrics.CategoricalCrossentropy,
        keras.metrics.F1Score,
        keras.metrics.FBetaScore,
        keras.metrics.FalseNegatives,
        keras.metrics.FalsePositives,
        keras.metrics.KLDivergence,
        keras.metrics.Poisson,
        keras.metrics.Precision,
        keras.metrics.PrecisionAtRecall,
        keras.metrics.Recall,
        keras.metrics.RecallAtPrecision,
        keras.metrics.SensitivityAtSpecificity,
        keras.metrics.SparseCategoricalCrossentropy,
        keras.metrics.SpecificityAtSensitivity,
        keras.metrics.TrueNegatives,
        keras.metrics.TruePositives,
        keras.losses.BinaryCrossentropy,
        keras.losses.BinaryFocalCrossentropy,
        keras.losses.CategoricalCrossentropy,
        keras.losses.CategoricalFocalCrossentropy,
        keras.losses.CategoricalGeneralizedCrossEntropy,
        keras.losses.Dice,
        keras.losses.KLDivergence,
        keras.losses.Poisson,
        keras.losses.SparseCategoricalCrossentropy,
        keras.losses.Tversky,
    }
)
_FUNCTIONS_OF_PROBABILITIES: frozenset[Callable[..., Any]] = frozenset(
    {
        keras.metrics.binary_accuracy,
        keras.losses.binary_crossentropy,
        keras.losses.binary_focal_crossentropy,
        keras.losses.categorical_crossentropy,
        keras.losses.categorical_focal_crossentropy,
        keras.losses.categorical_generalized_cross_entropy,
        keras.losses.dice,
        keras.losses.kl_divergence,
        keras.losses.poisson,
        keras.losses.sparse_categorical_crossentropy,
        keras.losses.tversky,
    }
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
    """Keras' metrics that grow with the number of rows; its others are means or ratios.

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


def on_logits(metrics: Any, loss: LipschitzLoss) -> list[Any]:
    """The user's metrics, such that those that take probabilities get them.

    A model's output is logits, of which a metric that thresholds or takes logarithms of
    probabilities would make wrong numbers. What each gets:

    * Keras' metrics, functions and losses of probabilities, and subclasses that leave
      ``update_state`` alone: ``probabilities``, so that a threshold of 0.5 means one half.
    * Those of them that say ``from_logits=True``, or whose thresholds are none of probabilities,
      as in ``Precision(thresholds=0)``, which is how Keras reads logits: the output as it is.
    * Keras' other metrics (errors, hinges, largest entries), and functions and classes of the
      user's: the output as it is. In regression every metric gets that.
    * ``"accuracy"``: one logit is of class 1 where it is above 0, as in certificates.

    Args:
        metrics: What was passed to ``compile``: objects, classes, functions and names, in any nest.
        loss: Says what the output means.

    Raises:
        InvalidValue: If one is no metric.
    """
    given = [metric for metric in keras.tree.flatten(metrics) if metric is not None]
    return [_adapted(_resolved(metric), loss) for metric in given]


def probabilities(loss: LipschitzLoss, logits: Any) -> Any:
    """What a model's logits mean under a loss.

    Args:
        loss: Of classes or labels. If it has an inverse temperature tau, it reads ``tau z``.
        logits: z, of shape (n, K), or (n, T, K) at T positions.

    Returns:
        In the same shape, ``sigmoid(tau z)`` of one logit and of several labels at once,
        ``softmax(tau z)`` of several classes.
    """
    scaled = logits * _inverse_temperature(loss)
    if loss.task_for(int(logits.shape[-1])) == "multiclass":
        return ops.softmax(scaled, axis=-1)
    return ops.sigmoid(scaled)


def _inverse_temperature(loss: Any) -> float:
    while hasattr(loss, "loss"):
        loss = loss.loss
    return float(getattr(loss, "inverse_temperature", 1.0))


class OnProbabilities(keras.metrics.Metric):
    """A metric that sees probabilities where the model makes logits.

    Args:
        metric: A metric of probabilities; it keeps the state.
        loss: Says what the logits mean.
    """

    def __init__(self, metric: keras.metrics.Metric, loss: LipschitzLoss) -> None:
        super().__init__(name=metric.name, dtype=metric.dtype)
        self.metric = metric
        self.loss = loss

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: Labels.
            y_pred: Logits, shape (n, K) or (n, T, K).
            sample_weight: Weights.
        """
        self.metric.update_state(y_true, probabilities(self.loss, y_pred), sample_weight)

    def result(self) -> Any:
        """That of the metric."""
        return self.metric.result()

    def reset_state(self) -> None:
        """Resets the metric."""
        self.metric.reset_state()


def _resolved(metric: Any) -> Any:
    """A metric or function in place of a name or class; ``"accuracy"`` stays."""
    if _is_accuracy(metric):
        return metric
    try:
        found = keras.metrics.get(metric)
    except (TypeError, ValueError) as error:
        raise InvalidValue(
            "Keras knows no such metric",
            received=metric,
            fix="Pass a metric of keras.metrics such as keras.metrics.AUC(), its name, or a"
            " function of y_true and y_pred",
        ) from error
    if isinstance(metric, str):
        found.name = metric
    return found


def _is_accuracy(metric: Any) -> bool:
    return isinstance(metric, str) and metric.lower() in ("accuracy", "acc")


def _adapted(metric: Any, loss: LipschitzLoss) -> Any:
    if loss.task != "regression":
        if _is_accuracy(metric):
            return keras.metrics.MeanMetricWrapper(_accuracy, name=metric)
        if _takes_probabilities(metric):
            return OnProbabilities(_by_rows(metric), loss)
    return _by_rows(metric) if isinstance(metric, keras.losses.Loss) else metric


def _by_rows(metric: Any) -> keras.metrics.Metric:
    """A metric of a function, or of a loss, whose own mean would count rows that fill a batch."""
    if isinstance(metric, keras.metrics.Metric):
        return metric
    function = metric.call if isinstance(metric, keras.losses.Loss) else metric
    return keras.metrics.MeanMetricWrapper(function, name=_name(metric))


def _accuracy(y_true: Any, y_pred: Any) -> Any:
    """What Keras takes ``"accuracy"`` for at these shapes, with one logit's threshold at 0."""
    if y_pred.shape[-1] == 1:
        return keras.metrics.binary_accuracy(y_true, y_pred, threshold=0.0)
    if len(y_true.shape) < len(y_pred.shape) or y_true.shape[-1] == 1:
        return keras.metrics.sparse_categorical_accuracy(y_true, y_pred)
    return keras.metrics.categorical_accuracy(y_true, y_pred)


def _takes_probabilities(metric: Any) -> bool:
    if type(metric) is keras.metrics.MeanMetricWrapper:
        reads_logits = metric._fn_kwargs.get("from_logits", False)
        return not reads_logits and _takes_probabilities(metric._fn)
    if any(getattr(metric, name, False) for name in ("from_logits", "_from_logits")):
        return False
    if _has_thresholds_of_logits(metric):
        return False
    known = any(metric is function for function in _FUNCTIONS_OF_PROBABILITIES)
    return known or _kind(metric) in OF_PROBABILITIES


def _kind(metric: Any) -> type:
    """The class of Keras' whose ``update_state`` or ``call`` a metric has."""
    for kind in type(metric).__mro__:
        if kind.__module__.startswith("keras.") or {"update_state", "call"} & set(vars(kind)):
            return kind
    return type(metric)


def _has_thresholds_of_logits(metric: Any) -> bool:
    given = getattr(metric, "init_thresholds", getattr(metric, "threshold", None))
    return given is not None and all(not 0.0 < t <= 1.0 for t in keras.tree.flatten(given))


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
