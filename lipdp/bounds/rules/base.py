"""What a rule states about one call of a layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras

from lipdp.bounds.final import check_final
from lipdp.numerics import gamma, times
from lipdp.projections.base import Projection


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


class LayerBounds(Protocol):
    """The contract of ``lipdp.layers.base.LipschitzLayer``, for any layer of one input."""

    @property
    def linear_backward(self) -> bool: ...

    def forward_bound(self, x: float) -> float: ...

    def backward_bound(self, x: float, g: float) -> float: ...

    def parameter_bounds(self, x: float, g: float) -> list[float]: ...

    def lipschitz(self, x: float) -> float: ...

    def rounding(self, unit: float) -> float: ...

    def inference_bound(self, x: float) -> float: ...

    def inference_error(self, x: float, unit: float) -> float: ...


class MergeBounds(Protocol):
    """Bounds of a weightless layer of several inputs, with norms at most ``xs``.

    ``jacobians(xs)[i]`` bounds the spectral norm of the Jacobian with respect to input i. If
    ``joint``, all of them together, side by side, have spectral norm at most the greatest of these.
    """

    @property
    def joint(self) -> bool: ...

    def forward_bound(self, xs: Sequence[float]) -> float: ...

    def jacobians(self, xs: Sequence[float]) -> list[float]: ...

    def rounding(self, unit: float) -> float: ...


#: Exact type of a layer -> its rule.
Rules = Mapping[type, Callable[[Any, Shapes], LayerBounds]]
MergeRules = Mapping[type, Callable[[Any, Shapes], MergeBounds]]


def enlarges(shape: Sequence[int], sample: Sequence[int]) -> bool:
    """Whether an operand of one shape would broadcast a sample to a larger one."""
    return len(shape) != len(sample) or any(
        size not in (1, axis) for size, axis in zip(shape, sample, strict=True)
    )


@dataclass(frozen=True)
class Weightless:
    """A layer without trained weights, one input: ``||f(t)|| <= min(offset + gain x, ceiling)``.

    Attributes:
        gain: Bound of the Jacobian norm in training, and of ``||f(t) - f(0)|| / ||t||``.
        inference: Lipschitz constant in inference mode.
        ceiling: Bound of ``||f(t)||`` for every t.
        offset: Bound of ``||f(0)||``.
        roundings: Successive roundings n of one output or gradient entry: the slack is gamma_n. 0
            is for what copies, drops and moves entries, or does nothing in inference.
    """

    gain: float = 1.0
    inference: float = 1.0
    ceiling: float = math.inf
    offset: float = 0.0
    roundings: int = 8
    linear_backward: bool = True

    def forward_bound(self, x: float) -> float:
        # The ceiling says nothing about NaN, which only a bounded input excludes.
        if math.isinf(x):
            return math.inf
        return min(self.offset + times(self.gain, x), self.ceiling)

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.gain, g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        return []

    def lipschitz(self, x: float) -> float:
        return self.inference

    def rounding(self, unit: float) -> float:
        return gamma(self.roundings, unit)

    def inference_bound(self, x: float) -> float:
        if math.isinf(x):
            return math.inf
        return min(self.offset + times(self.inference, x), self.ceiling)

    def inference_error(self, x: float, unit: float) -> float:
        return times(self.rounding(unit), self.inference_bound(x))


@dataclass(frozen=True)
class FiniteInput(Weightless):
    """A layer whose derivative at NaN or infinity is NaN: without a bound of its input, none."""

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.gain, g) if x < math.inf else math.inf


def projection_of(variable: Any) -> Projection | None:
    """The projection that training keeps a weight inside its set by, if there is one.

    Optimizers apply the constraint of the variable; what its layer says may have changed since.

    Raises:
        UnsupportedLayer: If it inherits the bounds of another one.
    """
    if not isinstance(variable.constraint, Projection):
        return None
    check_final(variable.constraint, Projection, "projection")
    return variable.constraint


def weight_bound(variable: Any, bound_of: Callable[[Any], float]) -> float:
    """Bound of a norm of a weight: of the present one, and if trained of its whole set too.

    Args:
        variable: The weight.
        bound_of: Bounds the norm of the present one.
    """
    present = bound_of(keras.ops.convert_to_numpy(variable))
    if not variable.trainable:
        return present
    projection = projection_of(variable)
    return (
        math.inf if projection is None else max(present, projection.spectral_bound(variable.shape))
    )
