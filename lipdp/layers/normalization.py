"""Removing means, with or without a learned scale, and normalising to a sphere."""

from __future__ import annotations

import math
from typing import Any, final

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers.base import LipschitzLayer, NonExpansiveLayer, sample_shape
from lipdp.layers.clipping import balls, flag, project_samples
from lipdp.numerics import gamma, integer, positive, times
from lipdp.setting import Setting


def centered(x: Any, axis: int) -> Any:
    """``x - mean(x)`` along an axis: an orthogonal projection, of norm 1.

    With n entries the mean is off by ``gamma_(n + 1) sum |x| / n``, n times over, which is at most
    ``gamma_(n + 1) ||x||`` in norm; backward the same.
    """
    return x - ops.sum(x, axis=axis, keepdims=True) * (1.0 / x.shape[axis])


def centering_roundings(size: int) -> int:
    """Roundings of ``centered`` over ``size`` entries, relative to the norm of the input."""
    return 2 * size + math.ceil(math.sqrt(size)) + 8


@final
@keras.saving.register_keras_serializable(package="lipdp")
class Centering(NonExpansiveLayer):
    """``x - mean(x)`` along one axis: an orthogonal projection, so 1-Lipschitz.

    Args:
        axis: The axis, counted with the batch axis as in Keras; not the batch axis itself.
    """

    axis = Setting[int]()

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = integer("axis", axis)

    def build(self, input_shape: Any) -> None:
        """Checks the axis and learns its size.

        Raises:
            InvalidValue: If it is no axis of a sample.
        """
        sizes = (0, *sample_shape(input_shape))
        if not -len(sizes) <= self.axis < len(sizes) or self.axis % len(sizes) == 0:
            raise InvalidValue(
                "axis must be an axis of each sample, not of the batch",
                received=self.axis,
                fix=f"Use 1 to {len(sizes) - 1}, or -1",
            )
        self._size = sizes[self.axis]

    def call(self, inputs: Any) -> Any:
        """The centred samples, same shape."""
        return centered(inputs, self.axis)

    def rounding(self, unit: float) -> float:
        """The rounding of the mean and of the difference."""
        return gamma(centering_roundings(self._size), unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "axis": self.axis}


@final
@keras.saving.register_keras_serializable(package="lipdp")
class CenterNorm(LipschitzLayer):
    """``C / (C - 1) (x - mean(x))`` over the C channels of each position, C at least 2.

    The mean is removed by an orthogonal projection of norm 1, so the constant is ``C / (C - 1)``.
    Put a ``BoundedScale`` and a ``BoundedBias`` behind for the learned scale and shift. Source: X.
    Qi et al., LipsFormer: Introducing Lipschitz Continuity to Vision Transformers, ICLR 2023.
    """

    linear_backward = True

    def build(self, input_shape: Any) -> None:
        """Learns the number of channels.

        Raises:
            InvalidValue: If there is only one.
        """
        self._channels = sample_shape(input_shape)[-1]
        if self._channels < 2:
            raise InvalidValue(
                "CenterNorm needs at least two channels", received=tuple(input_shape)
            )

    def call(self, inputs: Any) -> Any:
        """The centred and stretched samples, same shape."""
        return centered(inputs, -1) * self._factor

    @property
    def _factor(self) -> float:
        return self._channels / (self._channels - 1)

    def forward_bound(self, x: float) -> float:
        """``C / (C - 1) x``."""
        return times(self._factor, x)

    def backward_bound(self, x: float, g: float) -> float:
        """``C / (C - 1) g``."""
        return times(self._factor, g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """The rounding of the mean, the difference and the factor."""
        return gamma(centering_roundings(self._channels) + 2, unit)


@final
@keras.saving.register_keras_serializable(package="lipdp")
class SphereNormalization(LipschitzLayer):
    """``radius x / max(||x||, min_norm)`` with the norm of each sample's whole tensor.

    It is ``radius / min_norm`` times the projection on the ball of radius ``min_norm``.

    Args:
        radius: Norm of the output of every sample of norm at least ``min_norm``.
        min_norm: Below this norm samples are scaled by a constant.
        per_position: Whether each of the S positions of a sample, a vector of channels, is
            normalised on its own; the sample then has norm at most ``sqrt(S)`` times the radius.

    Guarantees:
        * Output norm at most ``min(radius, radius x / min_norm)``, Jacobian at most
          ``radius / min_norm``, both finite at 0.
        * A sample (or position) with a non-finite entry becomes zero, with zero derivative.
        * No norm runs over the batch axis.
    """

    linear_backward = True
    radius = Setting[float]()
    min_norm = Setting[float]()
    per_position = Setting[bool]()

    def __init__(
        self, radius: float, min_norm: float, per_position: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.radius = positive("radius", radius)
        self.min_norm = positive("min_norm", min_norm)
        self.per_position = flag("per_position", per_position)
        self._slope = positive("radius / min_norm", self.radius / self.min_norm)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._balls, self._entries = balls(input_shape, self.per_position)

    def call(self, inputs: Any) -> Any:
        """The normalised samples, same shape."""
        x = ops.cast(inputs, self.compute_dtype)
        return self._slope * project_samples(x, self.min_norm, per_position=self.per_position)

    def forward_bound(self, x: float) -> float:
        """``min(radius, radius x / min_norm)``, the first ``sqrt(S)`` times for S balls."""
        return min(math.sqrt(self._balls) * self.radius, times(self._slope, x))

    def backward_bound(self, x: float, g: float) -> float:
        """``radius g / min_norm``."""
        return times(self._slope, g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """As the projection on a ball, and one product."""
        return gamma(3 * self._entries + 28, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        own = {"radius": self.radius, "min_norm": self.min_norm, "per_position": self.per_position}
        return {**super().get_config(), **own}
