"""Balls of the Euclidean, Frobenius and maximum norm, of a tensor or of each of its slices."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.numerics import gamma, integer, positive, unit_roundoff
from lipdp.projections import matrices
from lipdp.projections.base import Projection
from lipdp.projections.norms import frobenius_norm_bound, scaled_up


class RadiusBall(Projection):
    """Keeps a weight whose proved norm is at most the radius, shrinks any other.

    With ``V = w / peak`` and a proved ``b >= ||V||``, a weight with ``peak b <= limit`` is kept and
    any other becomes ``limit U``, where U is ``V / b`` or another tensor made of V with norm at
    most 1, and ``limit = radius (1 - margin)``. The margin covers the roundings of limit, U and
    their product. A weight with a non-finite entry becomes all NaN.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.
    """

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive("radius", radius)

    @property
    def norm_bound(self) -> float:
        """The radius."""
        return self.radius

    def spectral_bound(self, shape: Sequence[int]) -> float:
        """The radius: the norm of this ball is at least the spectral one."""
        return self.radius

    @abc.abstractmethod
    def _norm(self, v: Any) -> Any:
        """Proved bound of the norm of a tensor with greatest absolute entry 1 (or all zero)."""

    @abc.abstractmethod
    def _growth(self, w: Any) -> float:
        """Factor c: entrywise relative errors of at most u grow the norm by at most 1 + c u."""

    @abc.abstractmethod
    def _certificate(self, w: Any) -> float:
        """Relative overshoot of ``bound_of``."""

    def _peak_axes(self, w: Any) -> tuple[int, ...] | None:
        """Axes that share one norm, all if None; the others have a ball each."""
        return None

    def _shrunk(self, v: Any, norm: Any) -> Any:
        """U, exact up to four roundings an entry."""
        return v / norm

    def __call__(self, w: Any) -> Any:
        """The weight inside the ball, same shape and dtype.

        Args:
            w: Weight of any shape, float32 or float64.
        """
        w = ops.convert_to_tensor(w)
        v, peak = matrices.normalized(matrices.widen(w), self._peak_axes(w))
        rounding = self._growth(w) * (2 * matrices.unit_of(w) + 8 * matrices.unit_of(v))
        limit = self.radius * (1.0 - rounding - self._certificate(w))
        norm = self._norm(v)
        shrunk = ops.cast(self._shrunk(v, norm) * limit, w.dtype)
        return matrices.nan_unless_finite(w, ops.where(peak <= limit / norm, w, shrunk))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {"radius": self.radius}


class EuclideanBall(RadiusBall):
    """Projection on ``sqrt(sum w^2) <= radius``.

    A sum of n squares is exact up to ``gamma(n + 1)`` relative in any order, so that with the
    division by the peak and the root the computed norm times ``1 + 2 gamma(n + 8)`` is a bound.
    """

    def bound_of(self, w: np.ndarray) -> float:
        """Euclidean norm of all entries, rounded up."""
        return frobenius_norm_bound(w)

    def _norm(self, v: Any) -> Any:
        axes = self._peak_axes(v)
        square = ops.sum(ops.square(v), axis=axes, keepdims=axes is not None)
        norm = matrices.at_least_one(ops.sqrt(square))
        return norm * (1.0 + 2.0 * gamma(self._size(v) + 8, matrices.unit_of(v)))

    def _growth(self, w: Any) -> float:
        return 1.0

    def _certificate(self, w: Any) -> float:
        return 8.0 * gamma(self._size(w) + 16, unit_roundoff("float64"))

    def _size(self, w: Any) -> int:
        axes = self._peak_axes(w)
        return math.prod(int(w.shape[a]) for a in (range(len(w.shape)) if axes is None else axes))


class SliceBall(EuclideanBall):
    """Projection of each slice at a fixed index of one axis on the Euclidean ball of its entries.

    With n slices of norm at most r, ``||W||_2 <= ||W||_F <= r sqrt(n)``, attained by n equal
    columns: a smaller other side of the matrix does not help.
    """

    _axis: int

    def bound_of(self, w: np.ndarray) -> float:
        """Greatest Euclidean norm of a slice, rounded up."""
        slices = np.moveaxis(np.asarray(w), self._axis, 0)
        return max((frobenius_norm_bound(s) for s in slices), default=0.0)

    def spectral_bound(self, shape: Sequence[int]) -> float:
        """The radius times the root of the number of slices."""
        _kept_axes(shape, self._axis)
        return scaled_up(self.radius * math.sqrt(shape[self._axis]))

    def _peak_axes(self, w: Any) -> tuple[int, ...]:
        return _kept_axes(w.shape, self._axis)


def _kept_axes(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """All axes but one.

    Raises:
        InvalidValue: If there is no such axis, or no other.
    """
    rank = len(shape)
    if rank < 2 or not -rank <= axis < rank:
        raise InvalidValue(
            f"The weight has no slices along axis {axis}",
            received=tuple(shape),
            fix="Give a weight of two axes or more, this one among them",
        )
    return tuple(a for a in range(rank) if a != axis % rank)


@final
@keras.saving.register_keras_serializable(package="lipdp")
class L2Ball(EuclideanBall):
    """Projection of a tensor of any shape on the Euclidean ball of all its entries.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside the ball as computed; one that already was stays, up to
          the rounding margin.
        * A weight with a non-finite entry becomes all NaN.
    """


@final
@keras.saving.register_keras_serializable(package="lipdp")
class FrobeniusProjection(EuclideanBall):
    """Projection of a kernel on ``||W||_F <= radius``, hence ``||W||_2 <= radius``.

    Args:
        radius: Radius of the ball, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside the ball as computed; one that already was stays, up to
          the rounding margin.
        * A weight with a non-finite entry becomes all NaN.
    """


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ChannelBall(SliceBall):
    """Keeps the kernel of each channel, with all its multipliers, at a norm of at most the radius.

    A depthwise kernel of shape (*k, C, M) keeps ``max_c ||K_c||_F <= radius``, where K_c, of shape
    (prod k, M), holds the entries of channel c. This bounds ``max_c ||K_c||_2``, the spectral norm
    of the block-diagonal matrix of all K_c: that of a depthwise convolution is at most
    ``sqrt(kappa)`` times as much, with kappa the greatest number of (window, tap) pairs that
    read one input position. It bounds the matrix of shape (prod k C, M), which stacks the K_c, only
    up to ``sqrt(C)``, which ``spectral_bound`` says. ``norm_bound`` and ``bound_of`` are those of
    ``max_c ||K_c||_F``.

    Args:
        radius: Greatest norm of a channel's kernel, from 1e-30 to 1e30.
        axis: Axis of the channels.

    Guarantees:
        * The kernel of each channel is inside its ball as computed; one that already was stays, up
          to the rounding margin, whatever the others do.
        * A weight with a non-finite entry becomes all NaN.
    """

    def __init__(self, radius: float = 1.0, axis: int = -2) -> None:
        super().__init__(radius)
        self.axis = self._axis = integer("axis", axis)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "axis": self.axis}


@final
@keras.saving.register_keras_serializable(package="lipdp")
class UnitColumns(SliceBall):
    """Keeps each column of a kernel, the weights of one unit, at a norm of at most the radius.

    A kernel of shape (..., in, units) keeps ``max_j ||w_j|| <= radius``, where the column w_j holds
    the entries of last index j. With radius 1 each logit ``w_j^T x`` is 1-Lipschitz by itself; all
    of them together are only ``sqrt(units)``-Lipschitz, which ``spectral_bound`` says.
    ``norm_bound`` and ``bound_of`` are those of the greatest column norm, not of the spectral one.

    Args:
        radius: Greatest norm of a column, from 1e-30 to 1e30.

    Guarantees:
        * Each returned column is inside its ball as computed; one that already was stays, up to
          the rounding margin, whatever the others do.
        * A weight with a non-finite entry becomes all NaN.
    """

    _axis = -1


@final
@keras.saving.register_keras_serializable(package="lipdp")
class MaxBall(Projection):
    """Clips each entry of a weight of any shape to ``[-radius, radius]``.

    The bounds are rounded towards 0 in float32, so that they are inside as computed.

    Args:
        radius: Greatest absolute entry, from 1e-30 to 1e30.

    Guarantees:
        * The returned weight is inside; one that already was stays as it is.
        * A weight with a non-finite entry becomes all NaN.
    """

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive("radius", radius)

    @property
    def norm_bound(self) -> float:
        """The radius."""
        return self.radius

    @property
    def limit(self) -> float:
        """The greatest float32 up to the radius."""
        nearest = np.float32(self.radius)
        inside = float(nearest) <= self.radius
        return float(nearest if inside else np.nextafter(nearest, np.float32(0.0)))

    def bound_of(self, w: np.ndarray) -> float:
        """Greatest absolute entry."""
        return greatest_entry_bound(w)

    def spectral_bound(self, shape: Sequence[int]) -> float:
        """The norm of the weight whose entries all have the greatest value, rounded up."""
        return self.radius * math.sqrt(math.prod(shape)) * (1.0 + 2.0**-50)

    def __call__(self, w: Any) -> Any:
        """The clipped weight, same shape and dtype."""
        w = ops.convert_to_tensor(w)
        # Not ops.clip, which shortens float64 to float32 on PyTorch.
        limit = ops.full_like(w, self.limit)
        inside = ops.where(w > limit, limit, ops.where(w < -limit, -limit, w))
        return ops.where(ops.all(ops.isfinite(w)), inside, ops.full_like(w, math.nan))

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {"radius": self.radius}


def greatest_entry_bound(w: np.ndarray) -> float:
    """Greatest absolute entry; infinite if one is not finite."""
    greatest = float(np.max(np.abs(np.asarray(w, dtype="float64")), initial=0.0))
    return greatest if math.isfinite(greatest) else math.inf
