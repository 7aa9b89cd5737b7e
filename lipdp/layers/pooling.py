"""Poolings by norms and by averages, over windows and over all positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, final

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers.base import LipschitzLayer, NonExpansiveLayer, positions, sample_shape
from lipdp.layers.windows import Windows, coverage, padded_sum_norm, windows_of
from lipdp.numerics import count, gamma, times
from lipdp.setting import Setting


def smooth_norm(squares: Any) -> Any:
    """A norm r from its square: ``r - m / 2`` above m, ``r^2 / (2 m)`` below; m tiny.

    As a function of the vector it is 1-Lipschitz, 0 at 0, at most r, and its derivative
    ``x / max(r, m)`` is continuous and 0 at 0. The constant m, 2^-50 (2^-400 in float64), is far
    below the precision of every activation that matters, so ``r - m / 2`` is r as computed. It is
    there because squares that underflow lose what they were: above ``m^2`` the k squares of a sum
    lose at most ``k 2^-126 / m^2 = k 2^-26`` of it, a quarter of the rounding of the sum.

    Args:
        squares: Sums of squares, any shape.
    """
    least = 2.0**-400 if keras.backend.standardize_dtype(squares.dtype) == "float64" else 2.0**-50
    large = squares > least * least
    # The root of what is not selected must have a finite derivative: 0 * inf is NaN.
    root = ops.sqrt(ops.where(large, squares, ops.ones_like(squares)))
    return ops.where(large, root - 0.5 * least, squares * (0.5 / least))


class WindowPooling(LipschitzLayer):
    """A pooling over sliding windows of a channels-last tensor, padded by zeros.

    Args:
        pool_size: Window, an integer or one for each spatial axis.
        strides: Distance of two windows, likewise; the window itself if None.
        padding: "valid", or "same": zeros around, ``ceil(n / stride)`` windows an axis.
    """

    linear_backward = True
    pool_size = Setting[tuple[int, ...]]()
    strides = Setting[tuple[int, ...]]()
    padding = Setting[str]()
    rank: ClassVar[int]

    def __init__(
        self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.pool_size = _sizes("pool_size", pool_size, self.rank)
        self.strides = self.pool_size if strides is None else _sizes("strides", strides, self.rank)
        self.padding = _padding(padding)

    def build(self, input_shape: Any) -> None:
        """Lays out the windows."""
        shape = sample_shape(input_shape)
        check_rank(shape, self.rank + 1)
        self._windows = self._windows_over(shape)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """One position for each window."""
        shape = sample_shape(input_shape)
        return (input_shape[0], *(axis.count for axis in self._windows_over(shape)), shape[-1])

    def _windows_over(self, shape: tuple[int, ...]) -> tuple[Windows, ...]:
        return windows_of(shape, self.pool_size, self.strides, self.padding)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """Sums over the taps of a window forward, over the windows of a position backward."""
        return gamma(2 * self._taps + coverage(self._windows) + 24, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "pool_size": self.pool_size,
            "strides": self.strides,
            "padding": self.padding,
        }

    @property
    def _taps(self) -> int:
        return math.prod(self.pool_size)

    def _means(self, x: Any) -> Any:
        """Mean of each window, zeros of the padding included."""
        totals = [axis.total_padding for axis in self._windows]
        if any(totals):
            # Not padding="same" of the pooling, which on PyTorch may repeat the border.
            x = ops.pad(x, [(0, 0), *((t // 2, t - t // 2) for t in totals), (0, 0)])
        return _mean_of_windows(x, self.pool_size, self.strides)


class L2NormPooling(WindowPooling):
    """Euclidean norm of each window, channel by channel.

    For window o and channel c the derivative is ``x_oc / max(||x_oc||, m)``, of norm at most 1, so
    the Jacobian is D P with ``||D||_2 <= 1``, block by block, and the operator P that copies each
    window out, ``||P x||^2 <= kappa ||x||^2``. The same for ``f(x) = D' P x``.
    """

    def call(self, inputs: Any) -> Any:
        """(n, ..., C) to one norm for each window and channel."""
        return smooth_norm(self._taps * self._means(ops.square(inputs)))

    def forward_bound(self, x: float) -> float:
        """``sqrt(kappa) x``, kappa the windows that read one position."""
        return times(self._gain(), x)

    def backward_bound(self, x: float, g: float) -> float:
        """``sqrt(kappa) g``; none where squares may overflow."""
        return times(self._gain(), g) if x < math.inf else math.inf

    def lipschitz(self, x: float) -> float:
        """``sqrt(kappa)``."""
        return self._gain()

    def _gain(self) -> float:
        return math.sqrt(coverage(self._windows))


class ScaledAveragePooling(WindowPooling, NonExpansiveLayer):
    """Sums over windows, divided by the proved norm of that linear map: 1-Lipschitz.

    Where windows do not overlap it is ``sqrt(k)`` times the mean of k elements. The padding of
    "same" counts as zeros. The map and its transpose have entries of one sign, so a rounding of
    ``gamma_n`` an entry is one of the whole norm.
    """

    def build(self, input_shape: Any) -> None:
        """Lays out the windows and finds the norm."""
        super().build(input_shape)
        self._scale = self._taps / padded_sum_norm(self._windows)

    def call(self, inputs: Any) -> Any:
        """(n, ..., C) to one value for each window and channel."""
        return self._means(inputs) * self._scale


def _mean_of_windows(x: Any, pool: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Means of windows inside x; volumes plane by plane, then along the first axis.

    TensorFlow has no pooling of float64 volumes on CPUs.
    """
    if len(pool) < 3:
        return ops.average_pool(x, pool, strides, padding="valid", data_format="channels_last")
    depth, channels = x.shape[1], x.shape[-1]
    planes = _mean_of_windows(ops.reshape(x, (-1, *x.shape[2:])), pool[1:], strides[1:])
    rows, columns = planes.shape[1:3]
    lines = ops.reshape(planes, (-1, depth, rows * columns, channels))
    means = _mean_of_windows(lines, (pool[0], 1), (strides[0], 1))
    return ops.reshape(means, (-1, means.shape[1], rows, columns, channels))


def check_rank(shape: Sequence[int], axes: int) -> None:
    """Checks the number of axes of one sample.

    Raises:
        InvalidValue: If it is another one.
    """
    if len(shape) != axes:
        raise InvalidValue(f"A sample must have {axes} axes, channels last", received=tuple(shape))


def _sizes(name: str, value: Any, rank: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, list | tuple) else (value,) * rank
    if len(values) != rank:
        raise InvalidValue(f"{name} must be one integer or {rank} of them", received=value)
    return tuple(count(name, v) for v in values)


def _padding(padding: Any) -> str:
    if padding not in ("valid", "same"):
        raise InvalidValue(
            "There is no such padding", received=padding, fix="Use 'valid' or 'same'"
        )
    return str(padding)


@final
@keras.saving.register_keras_serializable(package="lipdp")
class L2NormPooling1D(L2NormPooling):
    """As ``L2NormPooling2D``, of sequences (steps, C)."""

    rank = 1


@final
@keras.saving.register_keras_serializable(package="lipdp")
class L2NormPooling2D(L2NormPooling):
    """Euclidean norm of each window and channel of (rows, columns, C).

    Its derivative is finite everywhere and 0 at an all-zero window. Norms below 2^-50 (2^-400 in
    float64) are squared instead of rooted, to that end.

    Args:
        pool_size: Window, an integer or one for each axis.
        strides: Distance of two windows; the window itself if None.
        padding: "valid", or "same": zeros around.

    Guarantees:
        * ``||y|| <= sqrt(kappa) ||x||`` and the Jacobian is at most ``sqrt(kappa)``, kappa the
          greatest number of windows that read one position: 1 where windows do not overlap.
    """

    rank = 2


@final
@keras.saving.register_keras_serializable(package="lipdp")
class L2NormPooling3D(L2NormPooling):
    """As ``L2NormPooling2D``, of volumes (depth, rows, columns, C)."""

    rank = 3


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ScaledAveragePooling1D(ScaledAveragePooling):
    """As ``ScaledAveragePooling2D``, of sequences (steps, C)."""

    rank = 1


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ScaledAveragePooling2D(ScaledAveragePooling):
    """Average of each window of (rows, columns, C), over the norm of averaging.

    Where windows do not overlap it is ``sqrt(k)`` times the mean of k elements, while plain average
    pooling shrinks everything by ``1 / sqrt(k)`` at least.

    Args:
        pool_size: Window, an integer or one for each axis.
        strides: Distance of two windows; the window itself if None.
        padding: "valid", or "same": zeros around, which count as elements.

    Guarantees:
        * The map is linear and 1-Lipschitz, and exactly so: some input keeps its norm, if axes of
          overlapping windows have at most 512 positions.
    """

    rank = 2


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ScaledAveragePooling3D(ScaledAveragePooling):
    """As ``ScaledAveragePooling2D``, of volumes (depth, rows, columns, C)."""

    rank = 3


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


@final
@keras.saving.register_keras_serializable(package="lipdp")
class GlobalL2NormPooling(GlobalPooling):
    """Euclidean norm of each channel over all positions, (n, ..., C) to (n, C).

    Guarantees:
        * ``||y|| <= ||x||`` and the Jacobian is at most 1: row c is ``x_c / max(||x_c||, m)``, and
          the channels do not meet.
        * The derivative is finite everywhere and 0 at an all-zero channel. Norms below m, 2^-50
          (2^-400 in float64), are squared instead of rooted, to that end.
    """

    def call(self, inputs: Any) -> Any:
        """One norm for each channel."""
        return smooth_norm(ops.sum(ops.square(inputs), axis=self._axes))

    def backward_bound(self, x: float, g: float) -> float:
        """``g``; none where squares may overflow."""
        return g if x < math.inf else math.inf

    def lipschitz(self, x: float) -> float:
        """1."""
        return 1.0


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ScaledGlobalAveragePooling(GlobalPooling):
    """Sum over all S positions divided by ``sqrt(S)``, (n, ..., C) to (n, C).

    Guarantees:
        * Linear and 1-Lipschitz: each channel's inner product with a unit vector (Cauchy-Schwarz).
          A tensor that is constant over positions keeps its norm.
    """

    def call(self, inputs: Any) -> Any:
        """One value for each channel."""
        return ops.sum(inputs, axis=self._axes) * (1.0 / math.sqrt(self._positions))
