"""Certified radii of a model's predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds import lipschitz_constant, numerical_error
from lipdp.bounds.rows import check_row_shape
from lipdp.certificates._margins import label_matrix, logit_matrix, predicted_ids
from lipdp.certificates.chunks import RowChunks, is_read_by_rows
from lipdp.certificates.decision import task_of
from lipdp.certificates.radii import label_radii, label_slopes, pairwise_radii, radii
from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.layers import FrobeniusDense, SpectralDense
from lipdp.losses.base import Reading


@dataclass(frozen=True)
class Certificates:
    """What ``certify`` proved, one entry a sample.

    Attributes:
        radii: Float64 certified Euclidean radii, shape (n,), in units of the model's input; of a
            multilabel model one for each label, shape (n, K).
        predictions: Predicted class ids, shape (n,); of a multilabel model 0 or 1 for each label,
            shape (n, K).
        logits: Computed logits, shape (n, K).
        lipschitz: Lipschitz constant of the whole network.
        task: What the logits decide: ``"binary"``, ``"multiclass"`` or ``"multilabel"``.
    """

    radii: np.ndarray
    predictions: np.ndarray
    logits: np.ndarray
    lipschitz: float
    task: Reading = "multiclass"


def certify(
    model: keras.Model,
    x: Any,
    y: Any = None,
    *,
    batch_size: int = 1024,
    task: Reading | None = None,
) -> Certificates:
    """Certified radii of a model, in inference mode and at its present weights.

    Where the last layer is dense, the radius through it is taken if it is greater: both are proved.
    Certificates are post-processing of the released weights and cost no privacy.

    A radius is about a decision: the sign of one logit, the greatest of K, or with several labels
    the sign of each, whose radius is ``(|z_k| - 2 e) / l_k`` with ``l_k`` the Lipschitz constant of
    its logit. Which one follows from the loss that the model was compiled with, or was saved with
    by this package; a model that says nothing is taken for a classifier
    (``lipdp.certificates.decision``).

    Args:
        model: A built model that returns logits, shape (n, K); one logit has threshold 0.
        x: Inputs, as the model takes them, or rows that are read when asked for; perturbations are
            measured in their units, between inputs that are in the dtype of the model's input
            (float32, unless it begins with a ``keras.Input`` of another).
        y: True classes, as in ``radii``, or labels, as in ``label_radii``: a wrong prediction has
            radius 0. Without them the prediction is certified.
        batch_size: Rows a forward pass; the result does not depend on it beyond rounding.
        task: What the logits decide, ``"binary"``, ``"multiclass"`` or ``"multilabel"``; by default
            what the loss says.

    Guarantees:
        * No input at a Euclidean distance strictly below the radius has another computed class (or
          label): the rounding error of the forward pass is subtracted from the margin.

    Raises:
        UnsupportedLayer: If a layer has no proved bound.
        InvalidValue: If ``batch_size`` is below 1, or the outputs decide nothing: numbers
            (regression), probabilities of a sigmoid, logits at several positions.
        InvalidData: If the labels do not fit the logits, or the rows the shape of the model.
        UnsafeSetting: If the backend computes in less precision than the model states.
    """
    if batch_size < 1:
        raise InvalidValue("batch_size must be at least 1", received=batch_size, fix="Use 1024")
    decision = task_of(model, task)
    lipschitz = lipschitz_constant(model)
    error = numerical_error(model)
    logits = logit_matrix(_predict(model, x, batch_size), one_logit=False)
    if decision == "multilabel":
        proved = label_radii(logits, y, lipschitz=_slopes(model, lipschitz), error=error)
        return Certificates(proved, label_matrix(None, logits), logits, lipschitz, decision)
    proved = radii(logits, y, lipschitz=lipschitz, error=error)
    head = _dense_head(model) if logits.shape[1] > 1 else None
    if head is not None:
        through_head = _radii_through(model, head, logits, y, error)
        proved = np.maximum(proved, through_head)
    return Certificates(proved, predicted_ids(logits), logits, lipschitz, decision)


def _predict(model: keras.Model, x: Any, batch_size: int) -> np.ndarray:
    # Not the arrays themselves, which Keras would round to float32.
    rows = x if is_read_by_rows(x) else keras.tree.map_structure(np.asarray, x)
    check_row_shape(model, keras.tree.flatten(rows)[0].shape[1:])
    # A function that was traced before a layer was changed would predict by the old layer.
    model.make_predict_function(force=True)
    predicted = np.asarray(model.predict(RowChunks(rows, size=batch_size), verbose=0))
    # JAX without its 64-bit mode turns float64 models into float32 silently.
    if predicted.dtype.name != model.outputs[0].dtype:
        raise UnsafeSetting(
            f"The backend does not compute in the model's dtype {model.outputs[0].dtype}, "
            "so the rounding error is unknown",
            received=predicted.dtype.name,
            fix="Use float32, or enable 64-bit arithmetic in the backend",
        )
    return predicted


def _radii_through(
    model: keras.Model, head: Any, logits: np.ndarray, y: Any, error: float
) -> np.ndarray:
    rest = lipschitz_constant(keras.Model(model.inputs, head.input))
    kernel = keras.ops.convert_to_numpy(head.kernel)
    return pairwise_radii(logits, kernel, lipschitz_rest=rest, labels=y, error=error)


def _slopes(model: keras.Model, lipschitz: float) -> np.ndarray:
    """Lipschitz constant of each logit."""
    head = _dense_head(model)
    if head is None:
        return np.full(int(model.output_shape[-1]), lipschitz)
    rest = lipschitz_constant(keras.Model(model.inputs, head.input))
    kernel = keras.ops.convert_to_numpy(head.kernel)
    return np.minimum(label_slopes(kernel, lipschitz_rest=rest), lipschitz)


def _dense_head(model: keras.Model) -> Any:
    """The layer that makes the logits, if it is ``x W + b``; else None."""
    head = model.layers[-1]
    return head if _is_linear(head) and head.output is model.outputs[0] else None


def _is_linear(layer: Any) -> bool:
    if type(layer) is keras.layers.Dense:
        return layer.activation is keras.activations.linear
    return type(layer) in (SpectralDense, FrobeniusDense)
