"""The shapes that a rule may need to know."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Shapes:
    """Shapes of one sample at one call of a layer, without the batch axis.

    Attributes:
        inputs: One for each input tensor.
        output: Of the output tensor.
    """

    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]

    @property
    def input(self) -> tuple[int, ...]:
        """Shape of the first input."""
        return self.inputs[0]

    @property
    def size(self) -> int:
        """Number of entries of the output."""
        return math.prod(self.output)

    @property
    def positions(self) -> int:
        """Number of positions of the output: all its axes but the last."""
        return math.prod(self.output[:-1])

    @property
    def entries(self) -> int:
        """Number of entries of the largest of these tensors."""
        return max(math.prod(shape) for shape in (*self.inputs, self.output))
