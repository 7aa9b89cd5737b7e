"""A whole model seen from outside: gradients of one sample, and outputs of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point
from lipdp.losses.base import per_row
from lipdp.testing._weights import copies, restore

#: One array for each input of a model.
Rows = list[np.ndarray]


class ModelProbe:
    """Runs a model on rows, from the same state each time, so that random masks repeat.

    Args:
        model: A built model of one output.
        loss: A loss of one value a sample.
    """

    def __init__(self, model: keras.Model, loss: Any) -> None:
        self.model, self.loss = model, loss
        self.variables = list(model.trainable_variables)
        self.shapes = [tuple(t.shape[1:]) for t in model.inputs]
        self.whole = ["int" in str(t.dtype) for t in model.inputs]
        self._state = copies(model.non_trainable_variables)
        self._points = [Point((1, *shape), _float_type(model)) for shape in self.shapes]
        self._probe = GradientProbe([*self._points, model], self._function)

    def gradients(self, row: Sequence[np.ndarray], label: np.ndarray) -> tuple[Rows, Rows]:
        """The loss's gradients of one sample in training mode.

        Args:
            row: One array of one sample for each input.
            label: Of shape (1, ...).

        Returns:
            One array for each input, and one for each trained variable.
        """
        self._restore()
        with np.errstate(over="ignore", invalid="ignore"):
            for point, value in zip(self._points, row, strict=True):
                point.assign(np.asarray(value)[None].astype(point.value.dtype))
            label = np.asarray(label).astype(self.loss.dtype)
        _, found = self._probe.probe(label)
        count = len(self._points)
        return [g[0] for g in found[:count]], found[count:]

    def forward(self, batch: Sequence[np.ndarray]) -> np.ndarray:
        """Outputs in inference mode, flat, shape (rows, entries)."""
        with np.errstate(over="ignore", invalid="ignore"):
            arrays = [self._cast(a, i) for i, a in enumerate(batch)]
        # Compiled, as users predict, and since a search asks for the same shape many times.
        output = np.asarray(self.model.predict_on_batch(self._nest(arrays)))
        return output.reshape(len(output), -1)

    def _cast(self, array: np.ndarray, index: int) -> np.ndarray:
        dtype = self.model.inputs[index].dtype if self.whole[index] else _float_type(self.model)
        return np.asarray(array).astype(dtype)

    def _restore(self) -> None:
        restore(self.model.non_trainable_variables, self._state)

    def _nest(self, tensors: list[Any]) -> Any:
        if isinstance(self.model, keras.Sequential):
            return tensors[0]
        return keras.tree.pack_sequence_as(self.model.input, tensors)

    def _function(self, label: Any) -> Any:
        inputs = self._nest([point.value for point in self._points])
        logits = self.model(inputs, training=True)
        return ops.sum(per_row(self.loss.call(label, logits), logits))


def _float_type(model: keras.Model) -> str:
    """The widest of the model's layers."""
    doubles = any(layer.compute_dtype == "float64" for layer in model.layers)
    return "float64" if doubles else "float32"
