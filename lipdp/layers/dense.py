"""Dense layers on the last axis whose kernel stays in a ball."""

from __future__ import annotations

import abc
from typing import Any, final

import keras
from keras import ops

from lipdp.layers.base import positions, sample_shape
from lipdp.layers.linear import LinearLayer
from lipdp.numerics import count, gamma, product_slack, unit_roundoff
from lipdp.projections import BjorckProjection, FrobeniusProjection, Projection
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


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SpectralDense(BoundedDense):
    """``y = x W`` with ``||W||_2 <= 1``, W kept near orthogonal by Björck steps; no bias.

    The kernel of shape (in, units) starts orthogonal. Works on the last axis of any tensor.

    Args:
        units: Size of the last axis of the output.

    Guarantees:
        * Forward and backward it grows no norm; the kernel gradient of a sample has Frobenius
          norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, BjorckProjection(), **kwargs)

    def _initializer(self) -> keras.initializers.Initializer:
        return keras.initializers.Orthogonal()


@final
@keras.saving.register_keras_serializable(package="lipdp")
class FrobeniusDense(BoundedDense):
    """``y = x W`` with ``||W||_F <= radius``; no bias.

    Cheaper to keep than a spectral ball, and just as large for one output.

    Args:
        units: Size of the last axis of the output.
        radius: Radius of the Frobenius ball.
        kernel_initializer: Of the kernel, which is projected at once. A linear classifier learns
            best from ``"zeros"``.

    Guarantees:
        * Forward and backward it multiplies norms by at most the radius; the kernel gradient of a
          sample has Frobenius norm at most (input norm) (cotangent norm).
        * The kernel is inside its set from the start and after every update.
    """

    kernel_initializer = Setting[keras.initializers.Initializer]()

    def __init__(
        self,
        units: int,
        radius: float = 1.0,
        *,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(units, FrobeniusProjection(radius), **kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def _initializer(self) -> keras.initializers.Initializer:
        return self.kernel_initializer

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "radius": self.constraint.norm_bound,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
