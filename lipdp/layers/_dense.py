"""The bias-free dense layer on the last axis, shared by all weight sets."""

from __future__ import annotations

import abc
from typing import Any

import keras
from keras import ops

from lipdp.layers._linear import LinearLayer
from lipdp.layers._shapes import positions, sample_shape
from lipdp.numerics import count, gamma, product_slack, unit_roundoff
from lipdp.projections import Projection
from lipdp.setting import Setting


class ProjectedInitializer(keras.initializers.Initializer):
    """Draws from an initializer and projects at once, so that training starts inside the set."""

    def __init__(self, initializer: keras.initializers.Initializer, projection: Projection) -> None:
        self.initializer = initializer
        self.projection = projection

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """A weight inside the ball.

        Raises:
            UnsafeSetting: If the dtype is neither float32 nor float64.
        """
        unit_roundoff(keras.backend.standardize_dtype(dtype))
        return self.projection(self.initializer(shape, dtype=dtype))


class BoundedDense(LinearLayer):
    """``y = x W`` on the last axis, W of shape (in, units) inside a ball; no bias.

    At S positions the map is ``I_S (x) W``, of norm ``||W||_2``. The gradient with respect to W is
    ``sum_s x_s^T g_s = X^T G`` for the (S, in) and (S, units) matrices of a sample, of Frobenius
    norm at most ``||X||_F ||G||_F``.

    Args:
        units: Size of the last axis of the output.
        projection: The set of the kernel.
    """

    units = Setting[int]()

    def __init__(self, units: int, projection: Projection, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = count("units", units)
        self.constraint = projection

    @abc.abstractmethod
    def _initializer(self) -> keras.initializers.Initializer:
        """What the first kernel is drawn from, before its projection."""

    def build(self, input_shape: Any) -> None:
        """Creates the kernel, inside its set."""
        self._positions = positions(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(sample_shape(input_shape)[-1], self.units),
            initializer=ProjectedInitializer(self._initializer(), self.constraint),
            constraint=self.constraint,
        )

    def call(self, inputs: Any) -> Any:
        """``inputs`` of shape (n, ..., in) to (n, ..., units)."""
        # Not ops.matmul, which shortens float64 to float32 on PyTorch; and as one matrix, because
        # TensorFlow's batched product of rank 4 with a short inner axis writes out of its memory.
        x = ops.convert_to_tensor(inputs)
        rows = ops.reshape(x, (-1, x.shape[-1])) @ ops.convert_to_tensor(self.kernel)
        return ops.reshape(rows, (-1, *x.shape[1:-1], self.units))

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """The input shape with ``units`` in place of its last axis."""
        return (*input_shape[:-1], self.units)

    @property
    def weight(self) -> Any:
        """The kernel."""
        return self.kernel

    def rounding(self, unit: float) -> float:
        """Slack of the longest matrix product among forward, backward and kernel gradient."""
        short, long = sorted(self.kernel.shape)
        products = product_slack(long + 2, short, unit)
        return max(products, gamma(self._positions + 2, unit))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "units": self.units}
