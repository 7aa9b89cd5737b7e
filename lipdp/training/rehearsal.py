"""One step on zeros, traced and never run, before the first access of a training is recorded."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue, LipdpError
from lipdp.training.metrics import check_names


def rehearse(model: keras.Model, batch: Any, *, replicas: int = 1) -> None:
    """Finds what Keras refuses while it builds and traces a step, at no cost in privacy.

    The step is traced on shapes and types, in a scope that keeps every assignment to itself: no
    row is read, and weights, slots of the optimizer, states of metrics and seeds stay as they are.
    Metrics that have no variables yet are built. TensorFlow and JAX trace gradients and optimizer
    too; PyTorch, which traces nothing, and TensorFlow's replicas stop at metrics and learning rate,
    and so do steps that run eagerly, which may need numbers: they get zeros. Constraints are left
    out, for weights have entered them already, and tracing them takes longest.

    Guarantees:
        * No state is changed (``test_rehearsal.py::test_a_rehearsal_changes_nothing``).
        * Nothing is recorded where it fails (``test_rehearsal.py::test_what_keras_refuses``).

    Args:
        model: A model with a plan, whose optimizer is built and armed.
        batch: Inputs, targets and mask of a microbatch, as ``keras.KerasTensor``.
        replicas: Copies of the step, of which each has a part of the rows.

    Raises:
        InvalidValue: With what Keras says, if it refuses the model, loss, metrics or optimizer.
        UnsafeSetting: If a metric has the name of a public number.
    """
    # Parts of a batch that only add to a sum compute nothing that the last one does not.
    model.optimizer.set_mode(updates=True)
    try:
        with _without_constraints(model.trainable_variables):
            for trace in _traces(model, replicas):
                check_names(list(_refusing(trace, batch)))
    finally:
        model.optimizer.set_mode(updates=None)


def _traces(model: keras.Model, replicas: int) -> list[_Trace]:
    """What has to be looked at; each takes a batch and returns what a step logs."""
    kind = keras.backend.backend()
    if model.run_eagerly:
        return [_Trace(_forward(model), runs=True)]
    if kind == "jax":
        return [_Trace(_forward(model)), _Trace(_step_of_state(model))]
    if kind == "tensorflow" and replicas == 1:
        return [_Trace(lambda *batch: model.train_step(batch))]
    return [_Trace(_forward(model))]


def _forward(model: keras.Model) -> Callable[..., Any]:
    def forward(x: Any, y: Any, mask: Any) -> Any:
        predicted = model(x, training=True)
        model.loss.call(y, predicted)
        # A schedule computes it.
        ops.convert_to_tensor(model.optimizer.learning_rate)
        return model.compute_metrics(x, y, predicted, mask)

    return forward


def _step_of_state(model: keras.Model) -> Callable[..., Any]:
    """A step that takes the values of all variables, and returns new ones beside the log."""

    def step(*batch: Any) -> Any:
        parts: Sequence[Sequence[Any]] = (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
        state = tuple([ops.zeros(v.shape, v.dtype) for v in part] for part in parts)
        return model.train_step(state, batch)[0]

    return step


class _Trace(keras.Operation):
    """A function that Keras traces on shapes alone; it keeps the error, which Keras rewords."""

    def __init__(self, function: Callable[..., Any], *, runs: bool = False) -> None:
        super().__init__()
        self._function, self._runs = function, runs
        self.error: Exception | None = None

    def call(self, *batch: Any) -> Any:
        try:
            return self._function(*batch)
        except Exception as error:
            self.error = error
            raise

    def log(self, batch: Any) -> Any:
        """What the step logs, or its shapes."""
        if not self._runs:
            return self.compute_output_spec(*batch)
        with keras.StatelessScope():
            return self.call(*keras.tree.map_structure(_zeros, batch))


def _zeros(like: keras.KerasTensor) -> Any:
    return ops.convert_to_tensor(np.zeros(like.shape, like.dtype))


def _refusing(trace: _Trace, batch: Any) -> Any:
    try:
        return trace.log(batch)
    except Exception as error:
        cause = trace.error or error
        if isinstance(cause, LipdpError):
            raise cause from None
        # Keras writes the essence in bold.
        words = " ".join(re.sub(r"\x1b\[\d*m", "", str(cause)).split())
        raise InvalidValue(
            f"Keras refuses a step on rows of this shape; nothing was recorded. {words[:600]}",
            received=type(cause).__name__,
            fix="Make x, y, the metrics and the optimizer fit the model",
        ) from cause


@contextlib.contextmanager
def _without_constraints(variables: Sequence[Any]) -> Iterator[None]:
    kept = [variable.constraint for variable in variables]
    for variable in variables:
        variable.constraint = None
    try:
        yield
    finally:
        for variable, constraint in zip(variables, kept, strict=True):
            variable.constraint = constraint
