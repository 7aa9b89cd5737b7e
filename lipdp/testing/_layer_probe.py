"""A layer seen from outside: outputs, vector-Jacobian products, and its state put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point
from lipdp.testing._weights import copies, restore


class LayerProbe:
    """Runs a layer on batches of fixed size, from the same state each time.

    Restoring the state repeats a layer's random numbers, so that a difference between two calls is
    due to the inputs.

    Args:
        layer: A built layer of one input and one output.
        shape: Of one sample.
        rows: Batch size.
        training: Mode of the layer.
    """

    def __init__(
        self, layer: Any, shape: Sequence[int], rows: int = 1, training: bool = True
    ) -> None:
        self.layer = layer
        self.shape = tuple(shape)
        self.rows = rows
        self.training = training
        self._state = copies(layer.non_trainable_variables)
        self._point = Point((rows, *self.shape), dtype=layer.compute_dtype)
        self.output_shape = self.forward(np.zeros((rows, *self.shape))).shape[1:]
        self._probe = GradientProbe([self._point, layer], self._function)

    @property
    def output_size(self) -> int:
        """Number of entries of one sample's output."""
        return int(np.prod(self.output_shape))

    def cast(self, array: np.ndarray) -> np.ndarray:
        """In the precision of the layer."""
        with np.errstate(over="ignore"):
            return np.asarray(array).astype(self.layer.compute_dtype)

    def restore(self) -> None:
        """Puts the layer's state back."""
        restore(self.layer.non_trainable_variables, self._state)

    def state(self) -> list[np.ndarray]:
        """The layer's non-trainable variables now."""
        return copies(self.layer.non_trainable_variables)

    def draws_randomness(self) -> bool:
        """Whether a call moves the state, as that of a random generator."""
        self.forward(np.zeros((self.rows, *self.shape)))
        pairs = zip(self.state(), self._state, strict=True)
        return any(not np.array_equal(now, before) for now, before in pairs)

    def forward(self, batch: np.ndarray) -> np.ndarray:
        """Outputs of a batch (rows, ...)."""
        self.restore()
        tensor = ops.convert_to_tensor(self.cast(batch))
        return np.asarray(ops.convert_to_numpy(self.layer(tensor, training=self.training)))

    def pullback(
        self, batch: np.ndarray, cotangent: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """``J^T u`` with respect to the batch, and to each trainable variable of the layer.

        Args:
            batch: Shape (rows, ...).
            cotangent: Shape of the outputs, or flat.
        """
        self.restore()
        self._point.assign(self.cast(batch))
        shaped = self.cast(np.reshape(cotangent, (self.rows, *self.output_shape)))
        _, gradients = self._probe.probe(shaped)
        return gradients[0], gradients[1:]

    def _function(self, cotangent: Any) -> Any:
        output = self.layer(self._point.value, training=self.training)
        return ops.sum(output * ops.cast(cotangent, output.dtype))
