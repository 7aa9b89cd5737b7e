"""What poolings over all positions share."""

from __future__ import annotations

from typing import Any

from lipdp.errors import InvalidValue
from lipdp.layers._shapes import positions, sample_shape
from lipdp.layers.base import NonExpansiveLayer
from lipdp.numerics import gamma


class GlobalPooling(NonExpansiveLayer):
    """One value for each channel, from all S positions of a channels-last tensor."""

    def build(self, input_shape: Any) -> None:
        """Counts the positions."""
        if len(sample_shape(input_shape)) < 2:
            raise InvalidValue("There are no positions to pool over", received=tuple(input_shape))
        self._positions = positions(input_shape)
        self._axes = tuple(range(1, len(input_shape) - 1))

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """(n, C)."""
        return (input_shape[0], input_shape[-1])

    def rounding(self, unit: float) -> float:
        """Sums over the positions."""
        return gamma(2 * self._positions + 24, unit)
