"""Certified radii of a model's predictions."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds import InferenceBounds, inference_bounds
from lipdp.bounds.graph import check_row_shape
from lipdp.certificates.decision import task_of
from lipdp.certificates.radii import (
    label_matrix,
    label_radii,
    label_slopes,
    logit_matrix,
    pairwise_radii,
    predicted_ids,
    radii,
)
from lipdp.errors import InvalidValue, UnsafeSetting
from lipdp.layers import FrobeniusDense, SpectralDense
from lipdp.losses.base import Reading


def is_read_by_rows(x: Any) -> bool:
    """Whether this is no array, but gives the rows that it is asked for.

    That is an object with ``shape``, a NumPy ``dtype``, ``len`` and indexing by positions or a
    slice that does not offer itself as an array.
    """
    return (
        not hasattr(x, "__array__")
        and isinstance(getattr(x, "dtype", None), np.dtype)
        and all(hasattr(x, name) for name in ("shape", "__len__", "__getitem__"))
    )


class RowChunks(keras.utils.PyDataset):
    """All rows in order, a chunk at a time.

    Args:
        x: Array, a nest of such, or what gives rows when asked.
        y: Labels, one a row, or None.
        size: Rows of a chunk; the last may have fewer.
    """

    def __init__(self, x: Any, y: Any = None, size: int = 1024) -> None:
        super().__init__()
        # Keras takes no list of arrays from a reader of batches.
        self._x = tuple(x) if isinstance(x, list) else x
        self._y, self._size = y, size

    @property
    def num_batches(self) -> int:
        """Number of chunks."""
        return math.ceil(len(keras.tree.flatten(self._x)[0]) / self._size)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        rows = slice(index * self._size, (index + 1) * self._size)
        x = keras.tree.map_structure(lambda values: values[rows], self._x)
        return (x,) if self._y is None else (x, self._y[rows])


#: Most balls of inputs for which the bounds of a model are computed.
_MOST_BALLS = 12


class UncertifiedWarning(UserWarning):
    """Nothing can be proved about predictions; the message says why."""


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
        proved: Whether a radius of each sample, shape (n,), follows from its margin. Where it does
            not, nothing is known and the radius is 0; a proved radius of 0 says that the
            prediction is wrong or that its margin is within the rounding error.
        reason: Of how many samples nothing is proved, and why; empty if there are none.
    """

    radii: np.ndarray
    predictions: np.ndarray
    logits: np.ndarray
    lipschitz: float
    task: Reading
    proved: np.ndarray
    reason: str


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

    Proof. Let z be the exact network at the present weights and c the computed one. In a ball B of
    inputs z is l-Lipschitz and ``||c - z|| <= e``, by the norms of the present weights and of the
    inputs in B (``lipdp.bounds.inference_bounds``). Two inputs in B at a distance r have computed
    outputs at a distance of at most ``l r + 2 e``, from which ``radii`` follow. B is the whole
    space where something in the model bounds what it reads; else the ball around 0 whose radius b
    is the norm of the sample and the largest radius that its margin could give, or twice the norm
    where that is unknown. A radius then is at most b minus the norm of the sample, so that all
    perturbed samples are in B.

    Where nothing can be proved (a constant or rounding error without a bound, numbers that may
    overflow, outputs or weights that are not finite) a warning says why, and ``proved`` where.

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
          label): the rounding error of the forward pass is subtracted from the margin
          (``test_free_weights``, ``test_certify``, ``test_decision``).

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
    rows = x if is_read_by_rows(x) else keras.tree.map_structure(np.asarray, x)
    logits = logit_matrix(_predict(model, rows, batch_size), one_logit=False)
    margins = _Margins(logits, y, decision, _dense_head(model))
    everywhere = inference_bounds(model)
    if everywhere.reason:
        found, proved, reason = _in_balls(
            model, margins, everywhere, _norms(rows, batch_size, len(logits))
        )
    else:
        found, proved, reason = margins.radii(everywhere), np.full(len(logits), True), ""
    finite = np.isfinite(logits).all(axis=1)
    proved &= finite
    if not proved.all():
        why = reason or "the outputs are not finite"
        reason = f"Nothing is certified of {np.count_nonzero(~proved)} of {len(proved)} rows: {why}"
        warnings.warn(reason, UncertifiedWarning, stacklevel=2)
    predictions = label_matrix(None, logits) if decision == "multilabel" else predicted_ids(logits)
    return Certificates(found, predictions, logits, everywhere.lipschitz, decision, proved, reason)


@dataclass(frozen=True)
class _Margins:
    """Logits with what they are compared with."""

    logits: np.ndarray
    labels: Any
    task: Reading
    kernel: np.ndarray | None

    def of(self, rows: np.ndarray) -> _Margins:
        """Some of the rows."""
        labels = None if self.labels is None else np.asarray(self.labels)[rows]
        return _Margins(self.logits[rows], labels, self.task, self.kernel)

    def radii(self, bounds: InferenceBounds, error: float | None = None) -> np.ndarray:
        """Radii of all rows at these bounds; at another rounding error if one is given."""
        z, y = self.logits, self.labels
        e, rest = bounds.error if error is None else error, bounds.lipschitz_rest
        if self.task == "multilabel":
            slopes: Any = bounds.lipschitz
            if self.kernel is not None:
                slopes = np.minimum(label_slopes(self.kernel, lipschitz_rest=rest), slopes)
            return label_radii(z, y, lipschitz=slopes, error=e)
        joint = radii(z, y, lipschitz=bounds.lipschitz, error=e)
        if self.kernel is None or z.shape[1] == 1:
            return joint
        through = pairwise_radii(z, self.kernel, lipschitz_rest=rest, labels=y, error=e)
        return np.maximum(joint, through)


def _in_balls(
    model: keras.Model, margins: _Margins, everywhere: InferenceBounds, norms: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str]:
    """Radii in a ball of inputs for each row, whether something was proved, and why not."""
    # Without rounding errors, in the whole space: no radius is above.
    most = margins.radii(everywhere, error=0.0).reshape(len(norms), -1).max(axis=1, initial=0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        known = (most > 0.0) & np.isfinite(most)
        wanted = np.where(known, norms + most, np.where(norms > 0.0, 2.0 * norms, 1.0))
    balls = _few(np.where(np.isfinite(wanted), wanted, np.inf))
    found = np.zeros(margins.logits.shape if margins.task == "multilabel" else len(norms))
    proved, reason = np.zeros(len(norms), dtype=bool), ""
    for ball in np.unique(balls):
        rows = np.flatnonzero(balls == ball)
        bounds = inference_bounds(model, float(ball)) if np.isfinite(ball) else everywhere
        reason = reason or bounds.reason
        if not bounds.reason:
            room = np.nextafter(ball - norms[rows], -np.inf)
            inside = np.maximum(room, 0.0).reshape(-1, *[1] * (found.ndim - 1))
            found[rows] = np.minimum(margins.of(rows).radii(bounds), inside)
            proved[rows] = True
    return found, proved, reason


def _few(balls: np.ndarray) -> np.ndarray:
    """The same numbers, or larger ones of which there are few."""
    step, rounded = 1, np.nextafter(balls, np.inf)
    while len(np.unique(rounded)) > _MOST_BALLS:
        with np.errstate(over="ignore"):
            rounded = np.exp2(step * np.ceil(np.log2(balls) / step))
        # The logarithm is rounded.
        rounded = np.where(rounded < balls, 2.0 * rounded, rounded)
        step *= 2
    return rounded


def _norms(rows: Any, batch_size: int, count: int) -> np.ndarray:
    """Upper bounds of the norm of each row, all inputs together, as read in float32 too."""
    squares = np.zeros(count)
    chunks = RowChunks(rows, size=batch_size)
    for index in range(chunks.num_batches):
        start = index * batch_size
        for array in keras.tree.flatten(chunks[index][0]):
            flat = np.asarray(array, dtype=np.float64).reshape(len(array), -1)
            with np.errstate(over="ignore", invalid="ignore"):
                squares[start : start + len(flat)] += np.square(flat).sum(axis=1)
    # One rounding to float32 an entry; squares that vanish are below those of its least number.
    bound = np.sqrt(squares) * (1.0 + 2.0**-20) + 2.0**-120
    return np.where(np.isfinite(squares), bound, np.inf)


def _predict(model: keras.Model, rows: Any, batch_size: int) -> np.ndarray:
    # Not the arrays themselves, which Keras would round to float32.
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


def _dense_head(model: keras.Model) -> np.ndarray | None:
    """The kernel of the layer that makes the logits, if it is ``x W + b`` and finite; else None."""
    head = model.layers[-1]
    if not _is_linear(head) or head.output is not model.outputs[0]:
        return None
    kernel = np.asarray(keras.ops.convert_to_numpy(head.kernel), dtype=np.float64)
    return kernel if np.isfinite(kernel).all() else None


def _is_linear(layer: Any) -> bool:
    if type(layer) is keras.layers.Dense:
        return layer.activation is keras.activations.linear
    return type(layer) in (SpectralDense, FrobeniusDense)
