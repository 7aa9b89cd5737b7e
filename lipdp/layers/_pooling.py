"""What poolings over sliding windows share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers._averages import padded_sum_norm
from lipdp.layers._shapes import sample_shape
from lipdp.layers._smooth_norm import smooth_norm
from lipdp.layers._windows import Windows, coverage
from lipdp.layers.base import LipschitzLayer, NonExpansiveLayer
from lipdp.numerics import count, gamma, times
from lipdp.setting import Setting


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
        axes = zip(shape, self.pool_size, self.strides, strict=False)
        self._windows = tuple(Windows(n, k, s, padding=self.padding) for n, k, s in axes)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """One position for each window."""
        shape = sample_shape(input_shape)
        axes = zip(shape, self.pool_size, self.strides, strict=False)
        counts = (Windows(n, k, s, padding=self.padding).count for n, k, s in axes)
        return (input_shape[0], *counts, shape[-1])

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
