"""Removes the mean along an axis of each sample."""

from __future__ import annotations

from typing import Any, final

import keras

from lipdp.errors import InvalidValue
from lipdp.layers._centered import centered, centering_roundings
from lipdp.layers._shapes import sample_shape
from lipdp.layers.base import NonExpansiveLayer
from lipdp.numerics import gamma, integer
from lipdp.setting import Setting


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
        """Of the mean and the difference."""
        return gamma(centering_roundings(self._size), unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "axis": self.axis}
