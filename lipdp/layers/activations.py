"""Activations that keep norms: sorting, reflecting, and the absolute value."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers.base import NonExpansiveLayer, divisible, sample_shape, with_backward
from lipdp.numerics import count, gamma
from lipdp.setting import Setting

Sorted = tuple[Any, Callable[[Any], Any]]


def with_permutation(x: Any, sort: Callable[[Any], Sorted]) -> Any:
    """A sorted tensor, whose derivative is the permutation that sorted it.

    It is one at ties too, where the derivatives of ``minimum`` and ``maximum`` may both point at
    the same entry, a Jacobian of norm sqrt 2. Selecting by one mask cannot, and it is exact where
    ``b - relu(b - c)`` rounds. Backward the same mask selects once more: half of what automatic
    differentiation makes of two selections.

    Args:
        x: Any tensor.
        sort: Maps x to the sorted tensor and the inverse of the permutation.
    """
    if isinstance(x, keras.KerasTensor):
        # A graph of plain operations, for export.
        return sort(x)[0]
    return with_backward(sort, x)


def sort_halves(x: Any) -> Sorted:
    """Sorts the halves of the last axis against each other, in descending order."""
    return _Pairs((2, x.shape[-1] // 2), axis=0, larger=0).sort(x)


def sort_neighbours(x: Any) -> Sorted:
    """Sorts pairs that lie side by side on the last axis, in ascending order."""
    return _Pairs((x.shape[-1] // 2, 2), axis=1, larger=1).sort(x)


@dataclass(frozen=True)
class _Pairs:
    """Where pairs lie on the last axis.

    A pair is compared once, and one bit decides at both of its places: whether a processor takes
    subnormal numbers for zero may differ from thread to thread, and two comparisons with it.

    Attributes:
        grid: Shape of the last axis with an axis of size 2.
        axis: That axis of the grid.
        larger: Where on it the larger one goes, 0 or 1.
    """

    grid: tuple[int, int]
    axis: int
    larger: int

    def sort(self, x: Any) -> Sorted:
        """The sorted tensor, and the inverse of the permutation.

        XLA reads parts of an array for nothing. TensorFlow copies them: whole arrays take a third
        less of its time there.
        """
        if isinstance(x, keras.KerasTensor) or keras.backend.backend() == "tensorflow":
            return self._sort_whole(x)
        return self._sort_parts(x)

    def _sort_parts(self, x: Any) -> Sorted:
        first, second = self._parts(x)
        is_wrong = first > second if self.larger else second > first

        def exchanged(u: Any) -> Any:
            one, other = self._parts(u)
            both = (ops.where(is_wrong, other, one), ops.where(is_wrong, one, other))
            return ops.reshape(ops.stack(both, axis=self._place), ops.shape(u))

        return exchanged(x), exchanged

    @property
    def _place(self) -> int:
        return self.axis - 2

    def _parts(self, x: Any) -> list[Any]:
        return ops.unstack(ops.reshape(x, (*ops.shape(x)[:-1], *self.grid)), 2, axis=self._place)

    def _sort_whole(self, x: Any) -> Sorted:
        other = self._other(x)
        gets_larger = (np.indices(self.grid)[self.axis] == self.larger).ravel()
        is_wrong = ops.logical_and(other > x, gets_larger)
        # At the place of the smaller one it is False so far.
        apart = self.grid[1] if self.axis == 0 else 1
        way = apart if self.larger == 0 else -apart
        is_wrong = ops.logical_or(is_wrong, ops.roll(is_wrong, way, axis=-1))
        return ops.where(is_wrong, other, x), lambda u: ops.where(is_wrong, self._other(u), u)

    def _other(self, x: Any) -> Any:
        """The other one of its pair in each place."""
        if isinstance(x, keras.KerasTensor):
            # Whose shape may not be known.
            places = np.arange(math.prod(self.grid)).reshape(self.grid)
            return ops.take(x, np.flip(places, self.axis).ravel(), axis=-1)
        pairs = ops.reshape(x, (-1, *self.grid))
        return ops.reshape(ops.flip(pairs, axis=1 + self.axis), ops.shape(x))


@final
@keras.saving.register_keras_serializable(package="lipdp")
class MaxMin(NonExpansiveLayer):
    """``[max(a, b), min(a, b)]`` for the halves a, b of the last axis (of even size).

    The derivative is a permutation, at ties too, so norms are preserved forward and backward.
    """

    def build(self, input_shape: Any) -> None:
        """Checks that there are two halves."""
        divisible(input_shape, 2)

    def call(self, inputs: Any) -> Any:
        """The ordered halves, same shape."""
        return with_permutation(inputs, sort_halves)


@final
@keras.saving.register_keras_serializable(package="lipdp")
class GroupSort(NonExpansiveLayer):
    """Sorts neighbouring channels of the last axis, group by group, in ascending order.

    The derivative is a permutation, at ties too, so norms are preserved forward and backward.
    Source: C. Anil, J. Lucas, R. Grosse, Sorting out Lipschitz function approximation, ICML 2019.

    Args:
        group_size: Channels a group; must divide the last axis.
    """

    group_size = Setting[int]()

    def __init__(self, group_size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group_size = count("group_size", group_size)

    def build(self, input_shape: Any) -> None:
        """Checks that the groups fit."""
        divisible(input_shape, self.group_size)

    def call(self, inputs: Any) -> Any:
        """The sorted channels, same shape."""
        if self.group_size == 2:
            return with_permutation(inputs, sort_neighbours)
        grouped = (-1, *inputs.shape[1:-1], inputs.shape[-1] // self.group_size, self.group_size)
        ordered = ops.sort(ops.reshape(inputs, grouped), axis=-1)
        return ops.reshape(ordered, (-1, *inputs.shape[1:]))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "group_size": self.group_size}


@final
@keras.saving.register_keras_serializable(package="lipdp")
class FullSort(NonExpansiveLayer):
    """Sorts the last axis in ascending order.

    The derivative is a permutation, at ties too, so norms are preserved forward and backward.
    """

    def build(self, input_shape: Any) -> None:
        """Checks that there is an axis to sort."""
        sample_shape(input_shape)

    def call(self, inputs: Any) -> Any:
        """The sorted channels, same shape."""
        return ops.sort(inputs, axis=-1)


@final
@keras.saving.register_keras_serializable(package="lipdp")
class HouseholderActivation(NonExpansiveLayer):
    """Keeps or reflects each pair (a, b) of the halves of the last axis (of even size).

    With angle t, a pair with ``a sin(t/2) > b cos(t/2)`` is kept, any other becomes
    ``(a cos t + b sin t, a sin t - b cos t)``, its mirror image in the line between the two
    regions. The derivative is the identity or a reflection everywhere, the line included, so
    norms are preserved forward and backward. The angle pi/2 gives ``MaxMin``. Source: S. Singla,
    S. Singla, S. Feizi, Improved deterministic l2 robustness on CIFAR-10 and CIFAR-100, ICLR 2022.

    Args:
        angle: The fixed angle t, in radians.
    """

    angle = Setting[float]()

    def __init__(self, angle: float = math.pi / 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.angle = _finite(angle)

    def build(self, input_shape: Any) -> None:
        """Checks that there are two halves."""
        divisible(input_shape, 2)

    def call(self, inputs: Any) -> Any:
        """The kept or reflected pairs, same shape."""
        a, b = ops.split(inputs, 2, axis=-1)
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        kept = a * math.sin(self.angle / 2) > b * math.cos(self.angle / 2)
        first = ops.where(kept, a, a * cos + b * sin)
        second = ops.where(kept, b, a * sin - b * cos)
        return ops.concatenate([first, second], axis=-1)

    def rounding(self, unit: float) -> float:
        """Relative error of the computed pairs.

        Each entry of a mirror image has 3 roundings of at most the pair's norm: ``3 sqrt(2) u``.
        Where rounding takes the other image, the pair lies within 2 u of its norm from the line,
        and the images differ by twice that.
        """
        return gamma(12, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "angle": self.angle}


def _finite(angle: Any) -> float:
    if not isinstance(angle, numbers.Real) or not math.isfinite(angle):
        raise InvalidValue("angle must be a finite number, in radians", received=angle)
    return float(angle)


@final
@keras.saving.register_keras_serializable(package="lipdp")
class AbsoluteValue(NonExpansiveLayer):
    """``|x|``, entry by entry.

    Selecting ``-x`` or ``x`` has derivative -1 or 1 everywhere, at 0 and at NaN too, so norms are
    preserved backward as well; that of the absolute value itself is 0, 1 or NaN there, depending on
    the backend.
    """

    def call(self, inputs: Any) -> Any:
        """The absolute values, same shape."""
        return ops.where(inputs < 0, -inputs, inputs)
