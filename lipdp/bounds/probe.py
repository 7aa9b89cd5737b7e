"""Exact gradients by automatic differentiation on whichever backend Keras runs, naming none.

Keras has no public gradient function. Its trainer computes gradients, though, and hands them to
the optimizer: an optimizer that writes them down and changes nothing is all it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidState


class Point(keras.layers.Layer):
    """A layer that holds one trainable tensor: a place to take gradients at.

    Args:
        shape: Shape of the tensor, batch axis included.
        dtype: Its dtype; the global float type if None.
    """

    def __init__(self, shape: Sequence[int], dtype: str | None = None) -> None:
        super().__init__(dtype=dtype, autocast=False)
        self.value = self.add_weight(shape=tuple(shape), initializer="zeros", name="value")
        self.built = True

    def assign(self, value: np.ndarray) -> None:
        """Moves the point."""
        self.value.assign(value)


class _Recorder(keras.optimizers.Optimizer):
    """Keeps the last gradients and leaves the variables alone, their constraints included."""

    def __init__(self) -> None:
        super().__init__(learning_rate=0.0)
        self.recorded: list[Any] = []

    def build(self, variables: list[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self.recorded = self.add_optimizer_variables(variables, "recorded")

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        for slot, gradient in zip(self.recorded, grads, strict=True):
            if gradient is None:
                self.assign(slot, ops.zeros_like(slot))
            else:
                # A sparse gradient keeps one of several equal rows when it is assigned.
                self.assign(slot, ops.convert_to_tensor(gradient))

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Never called: ``apply`` is overridden."""


class _ProbeModel(keras.Model):
    """A model whose loss is the probed function times a trainable 1.

    The gradient with respect to that 1 is the value of the function, in its own precision.
    """

    def __init__(self, parts: list[Any], function: Callable[..., Any], dtype: str) -> None:
        super().__init__(dtype=dtype, name="gradient_probe")
        self.parts = parts
        self.function = function
        self.one = self.add_weight(shape=(), initializer="ones", name="one", dtype=dtype)
        self.built = True

    @property
    def metrics(self) -> list[Any]:
        # Nobody reads the mean of the loss, and to reset it takes a tenth of a call.
        return []

    def call(self, inputs: Any) -> Any:
        return ops.zeros((1,))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        return self.one.value * ops.cast(self.function(*x[1:]), self.one.dtype)


class GradientProbe:
    """Value and gradients of a scalar function of the variables of some layers.

    The function is compiled at the first call, as Keras compiles a training step, and evaluated at
    the present values of the variables afterwards. Neither these nor their constraints are touched;
    state that the function itself updates (seeds, statistics) does move on.

    Args:
        parts: A built layer or model, or several; gradients are taken with respect to their
            trainable variables.
        function: Maps the tensors given to ``probe`` to a scalar tensor, by Keras operations on
            these tensors and on the parts.
        dtype: In which the value is reported.
        jit_compile: As in ``keras.Model.compile``.

    Raises:
        InvalidState: If a part has not been built.
    """

    def __init__(
        self,
        parts: Any,
        function: Callable[..., Any],
        *,
        dtype: str | None = None,
        jit_compile: Any = "auto",
    ) -> None:
        layers = list(parts) if isinstance(parts, list | tuple) else [parts]
        for layer in layers:
            if not layer.built:
                raise InvalidState(
                    "A gradient probe needs layers with variables",
                    received=layer.name,
                    fix="Build the layer or model first, such as by calling it on a batch",
                )
        self._model = _ProbeModel(layers, function, dtype or keras.config.floatx())
        self._recorder = _Recorder()
        self._model.compile(optimizer=self._recorder, loss=None, jit_compile=jit_compile)
        self._shapes: list[tuple[int, ...]] = []
        self._recorder.build(self._model.trainable_variables)
        self._slots = {
            id(variable): slot
            for variable, slot in zip(
                self._model.trainable_variables, self._recorder.recorded, strict=True
            )
        }
        self.variables = [v for v in self._model.trainable_variables if v is not self._model.one]

    def probe(self, *inputs: Any) -> tuple[float, list[np.ndarray]]:
        """Evaluates once.

        Args:
            *inputs: Arrays of rank at least 1, or nests of them; a new shape compiles anew.

        Returns:
            The value, and one gradient for each of ``self.variables``, the trainable variables of
            the parts in order. A variable that the function does not use has gradient 0.
        """
        self._compile_for([np.shape(a) for a in keras.tree.flatten(inputs)])
        self._model.train_on_batch((np.zeros((1,), "float32"), *inputs))
        value = float(self._read(self._model.one))
        return value, [self._read(variable) for variable in self.variables]

    def _compile_for(self, shapes: list[tuple[int, ...]]) -> None:
        # Left alone, TensorFlow would generalise the shapes of the calls to an unknown rank.
        if self._shapes != shapes:
            self._model.make_train_function(force=True)
            self._shapes = shapes

    def _read(self, variable: Any) -> np.ndarray:
        return ops.convert_to_numpy(self._slots[id(variable)].value)


def per_sample_gradient_norms(
    model: Any, loss: Any, x: Any, y: Any, *, training: bool = False
) -> np.ndarray:
    """Euclidean norm of each sample's gradient for each trainable variable.

    Rows go through the model one by one, so that no row can lean on another.

    Args:
        model: A built Keras model of one output.
        loss: A Keras loss.
        x: Inputs, an array or a nest of arrays with n rows.
        y: Labels with n rows.
        training: Whether the model runs in training mode.

    Returns:
        Norms in float64, shape (n, V), aligned with ``model.trainable_variables``.
    """

    def row_loss(row: Any, label: Any) -> Any:
        return ops.sum(loss(label, model(row, training=training)))

    probe = GradientProbe(model, row_loss)
    count = len(keras.tree.flatten(x)[0])
    norms = [
        [np.linalg.norm(g.astype("float64").ravel()) for g in probe.probe(*_row(i, x, y))[1]]
        for i in range(count)
    ]
    return np.asarray(norms, dtype="float64").reshape(count, len(probe.variables))


def _row(index: int, *arrays: Any) -> Any:
    return keras.tree.map_structure(lambda a: np.asarray(a)[index : index + 1], arrays)
