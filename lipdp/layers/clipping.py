"""Projections on a ball: of inputs, of activations, and of the backward signal."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers.base import (
    LipschitzLayer,
    entries,
    identity,
    positions,
    sample_shape,
    with_backward,
)
from lipdp.numerics import gamma, positive
from lipdp.setting import Setting, refuse_change

_HUGE, _SHRINK = 2.0**100, 2.0**-30
#: Squares of entries that matter for such a radius neither overflow nor vanish.
_PLAIN_RADII = (2.0**-20, 2.0**20)


def project_samples(x: Any, radius: float, *, per_position: bool = False) -> Any:
    """``x min(1, radius / ||x||)`` with the norm of each sample; a non-finite one becomes 0.

    The derivative is k outside the ball, ``k (I - y y^T / radius^2)`` with y the result and
    ``k = radius / ||x||``, of norm at most 1; inside it is the identity, and 0 for a sample that is
    not finite.

    Args:
        x: Samples, shape (n, ...), any finite or non-finite floats.
        radius: Radius of the ball.
        per_position: Whether each position of a sample, a vector of channels, is projected on its
            own, and set to 0 on its own.
    """
    axes = _axes(x, per_position)
    if isinstance(x, keras.KerasTensor):
        # A graph of plain operations, for export.
        return _scaled(x, radius, axes)[0]

    def function(x: Any) -> tuple[Any, Callable[[Any], Any]]:
        y, factor, changed = _projected(x, radius, axes)

        def pull(u: Any) -> Any:
            along = ops.sum((y / radius) * u, axis=axes, keepdims=True) / radius
            return factor * (u - ops.where(changed, along, ops.zeros_like(along)) * y)

        return y, pull

    return with_backward(function, x)


def project_and_tell(x: Any, radius: Any, *, per_position: bool = False) -> tuple[Any, Any]:
    """``project_samples``, and whether each sample was changed: outside the ball or not finite.

    Args:
        x: Samples, shape (n, ...); nothing is differentiated.
        radius: Radius of the ball; a float, or a scalar tensor of x's dtype.
        per_position: As in ``project_samples``.

    Returns:
        The projected samples, and booleans with axes of size 1 in place of those of a ball.
    """
    y, _, changed = _projected(x, radius, _axes(x, per_position))
    return y, changed


def _axes(x: Any, per_position: bool) -> tuple[int, ...]:
    return (len(x.shape) - 1,) if per_position else tuple(range(1, len(x.shape)))


def _projected(x: Any, radius: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The projected samples, the factor of each, and whether it was changed."""
    if not isinstance(radius, float) or not _PLAIN_RADII[0] <= radius <= _PLAIN_RADII[1]:
        return _scaled(x, radius, axes)
    square = ops.sum(ops.square(x), axis=axes, keepdims=True)
    plain = ops.isfinite(square)
    inside = square <= radius**2
    factor = radius / ops.sqrt(ops.where(inside, ops.ones_like(square) * radius**2, square))
    factor = ops.where(inside, ops.ones_like(factor), factor)
    y, outside = x * factor, ops.logical_not(inside)

    def with_others() -> tuple[Any, Any, Any]:
        # The plain samples have the same values as without the others, bit by bit.
        found = _scaled(x, radius, axes)
        return tuple(
            ops.where(plain, a, b) for a, b in zip((y, factor, outside), found, strict=True)
        )

    return ops.cond(ops.all(plain), lambda: (y, factor, outside), with_others)


def _scaled(x: Any, radius: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The same for samples of any size.

    Everything is scaled by ``1 / p``, ``p = max(radius, max |x|)``, so nothing overflows; p cancels
    in the result.
    """
    finite = ops.all(ops.isfinite(x), axis=axes, keepdims=True)
    x = ops.where(finite, x, ops.zeros_like(x))
    peak = ops.max(ops.abs(x), axis=axes, keepdims=True)
    # Not ops.maximum, which shortens float64 to float32 on PyTorch.
    scale = ops.where(peak > radius, peak, ops.zeros_like(peak) + radius)
    v = _divide(x, scale)
    square = ops.sum(ops.square(v), axis=axes, keepdims=True)
    inside = ops.logical_and(peak <= radius, square <= 1.0)
    norm = ops.sqrt(ops.where(inside, ops.ones_like(square), square))
    changed = ops.logical_not(ops.logical_and(finite, inside))
    factor = ops.where(
        inside, ops.ones_like(norm), _divide(ops.ones_like(norm) * radius, scale) / norm
    )
    factor = ops.where(finite, factor, ops.zeros_like(factor))
    return ops.where(inside, x, v * (radius / norm)), factor, changed


def balls(input_shape: Sequence[int | None], per_position: bool) -> tuple[int, int]:
    """Number of vectors that ``project_samples`` projects for one sample, and their size."""
    count = positions(input_shape) if per_position else 1
    return count, entries(input_shape) // count


def flag(name: str, value: Any) -> bool:
    """The value, if it is True or False.

    Raises:
        InvalidValue: If it is neither.
    """
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} must be True or False", received=value)
    return value


def _divide(x: Any, scale: Any) -> Any:
    """``x / scale`` where the reciprocal of the scale may underflow.

    Compilers turn ``x / scale`` into ``x (1 / scale)`` and merge factors, so both are made smaller
    behind a selection, which they cannot merge.
    """
    huge = scale > _HUGE
    return ops.where(huge, x * _SHRINK, x) / ops.where(huge, scale * _SHRINK, scale)


class BallLayer(LipschitzLayer):
    """Projects each sample's whole tensor on the ball; a non-finite sample becomes zero.

    Args:
        radius: Radius of the ball.

    Attributes:
        per_position: Whether each position has a ball of its own.
    """

    linear_backward = True
    radius = Setting[float]()
    per_position = Setting[bool](False)

    def __init__(self, radius: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.radius = positive("radius", radius)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._balls, self._entries = balls(input_shape, self.per_position)

    def call(self, inputs: Any) -> Any:
        """``x min(1, radius / ||x||)``, one sample at a time."""
        x = ops.cast(inputs, self.compute_dtype)
        return project_samples(x, self.radius, per_position=self.per_position)

    def forward_bound(self, x: float) -> float:
        """``min(x, radius)``, with a radius ``sqrt(S)`` times as large for S balls."""
        return min(x, math.sqrt(self._balls) * self.radius)

    def backward_bound(self, x: float, g: float) -> float:
        """The projection on a convex set is 1-Lipschitz."""
        return g

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """Relative error of the computed result and of the computed cotangent.

        With n entries a ball, the square sum is off by ``gamma(n + 12)``, its power -3/2 by 1.5
        times that, the inner product of the derivative by ``gamma(n)``, relative to ``||g||``.
        """
        return gamma(3 * self._entries + 24, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "radius": self.radius}


@final
@keras.saving.register_keras_serializable(package="lipdp")
class BoundedInput(BallLayer):
    """Projection of each record on the Euclidean ball, as the first layer of a ``Sequential``.

    Args:
        shape: Shape of one record, without the batch axis.
        radius: Radius of the ball, in the units of the record.

    Guarantees:
        * Every record, a non-finite or huge one included, leaves with norm at most the radius.
        * A record with a non-finite entry becomes the zero record, with zero derivative.
        * No norm runs over the batch axis.
    """

    shape = Setting[tuple[int, ...]]()

    def __init__(self, shape: Sequence[int], radius: float, **kwargs: Any) -> None:
        self.shape = sample_shape((None, *shape))
        with warnings.catch_warnings():
            # Keras advises an Input object; here the layer is that object.
            warnings.filterwarnings("ignore", message="Do not pass an `input_shape`")
            super().__init__(radius, input_shape=self.shape, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "shape": self.shape}


@final
@keras.saving.register_keras_serializable(package="lipdp")
class ActivationClip(BallLayer):
    """Projection of each sample's whole tensor on the Euclidean ball.

    Args:
        radius: Radius of the ball.
        per_position: Whether each of the S positions of a sample, a vector of channels, is
            projected on its own; the sample then has norm at most ``sqrt(S)`` times the radius.

    Guarantees:
        * The output of a sample (or position) has norm at most the radius; the map is 1-Lipschitz.
        * A sample (or position) with a non-finite entry becomes zero, with zero derivative.
        * No norm runs over the batch axis.
    """

    def __init__(self, radius: float, per_position: bool = False, **kwargs: Any) -> None:
        super().__init__(radius, **kwargs)
        self.per_position = flag("per_position", per_position)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "per_position": self.per_position}


@final
@keras.saving.register_keras_serializable(package="lipdp")
class CotangentClip(LipschitzLayer):
    """Identity forward; backward it projects each sample's cotangent on the ball.

    What it sends back is not the gradient of the loss, but it is a function of one sample only.
    The map itself is the identity, which is what certificates use.

    Args:
        max_norm: Largest Euclidean norm of a sample's cotangent, over its whole tensor.
        per_position: Whether the cotangent of each of the S positions of a sample, a vector of
            channels, is clipped on its own.

    Guarantees:
        * The cotangent sent back has norm at most ``min(g, max_norm)``, or ``min(g, sqrt(S)
          max_norm)`` if clipped by position.
        * A cotangent (or that of a position) with a non-finite entry is replaced by zero.
        * No norm runs over the batch axis.
    """

    max_norm = Setting[float]()
    per_position = Setting[bool]()

    def __init__(self, max_norm: float, per_position: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_norm = positive("max_norm", max_norm)
        self.per_position = flag("per_position", per_position)

    def build(self, input_shape: Any) -> None:
        """Learns the size of a sample."""
        self._balls, self._entries = balls(input_shape, self.per_position)

    def call(self, inputs: Any) -> Any:
        """The inputs, unchanged."""
        return identity(inputs, backward=self._clip)

    def _clip(self, u: Any) -> Any:
        return project_samples(u, self.max_norm, per_position=self.per_position)

    def forward_bound(self, x: float) -> float:
        """The identity."""
        return x

    def backward_bound(self, x: float, g: float) -> float:
        """``min(g, max_norm)``, with a norm ``sqrt(S)`` times as large for S positions."""
        return min(g, math.sqrt(self._balls) * self.max_norm)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def lipschitz(self, x: float) -> float:
        """The forward map is the identity."""
        return 1.0

    def rounding(self, unit: float) -> float:
        """Relative error of the computed norm of n entries."""
        return gamma(self._entries + 24, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        own = {"max_norm": self.max_norm, "per_position": self.per_position}
        return {**super().get_config(), **own}


_RANGE = 1000.0


@final
@keras.saving.register_keras_serializable(package="lipdp")
class AdaptiveCotangentClip(LipschitzLayer):
    """Identity forward; backward it projects each sample's cotangent on a ball of trained radius.

    The radius is the weight ``threshold``. What the backward pass hands over as its gradient is no
    derivative but a count: the samples whose cotangent was longer than the radius (as computed), or
    not finite. An optimizer that adds noise to the count may move the threshold by ``updated``,
    towards the quantile ``target_quantile`` of the norms; any other must leave it alone.

    A sample contributes exactly 1 or 0 to the count, and 0 if its cotangent is zero, as that of an
    empty slot of a padded batch is. So one record more or less changes the count by at most 1,
    whatever stands in its slot, and no mask is needed. (Counting ``+1/2`` and ``-1/2`` would change
    by 1/2, but then an empty slot has to be told from a record with a short cotangent.)

    Bounds of a trained layer hold while the threshold is at most ``reference``, which is the
    minimum unless ``at_threshold`` says otherwise. ``backward_bound`` is the reference and not
    ``min(g, reference)``: a bound D of a variable, as a function of the references c that it
    depends on, then grows at most in proportion, ``D(t c) <= t D(c)`` for ``t >= 1``, since the
    bounds of every step further back are nondecreasing in g and grow at most in proportion: they
    are products with constants, sums, norms and ``min(g, constant)``. So at thresholds C the
    gradient has norm at most ``D(minimum) max (C / minimum)``, unless the bound becomes infinite,
    which shows at the maximum. A frozen layer is a clip at its present threshold.

    Source: Andrew, Thakkar, McMahan, Ramaswamy, "Differentially Private Learning with Adaptive
    Clipping" (NeurIPS 2021), algorithm 1, with its geometric update.

    Args:
        initial: Threshold at the start.
        target_quantile: Fraction of the cotangents that are to stay as they are, in (0, 1).
        rate: Learning rate of the logarithm of the threshold.
        minimum: Least threshold; ``initial / 1000`` if None.
        maximum: Greatest threshold; ``1000 initial`` if None.
        count_noise: Standard deviation of the noise that the count is to get, as a fraction of the
            expected batch size.

    Guarantees:
        * A cotangent sent back has norm at most ``radius()``, which lies in [minimum, maximum]
          whatever the weight is; one with a non-finite entry is replaced by zero.
        * What is sent back to one sample depends on that sample and the threshold alone.
        * Each sample adds exactly 0 or 1 to the gradient of the threshold, in every use of the
          layer; the sum is exact up to 2^24 samples in float32.
        * ``updated`` reads the data through the noisy count alone.

    Raises:
        InvalidValue: If an argument is not positive and finite, the quantile does not lie strictly
            between 0 and 1, or the initial threshold not between minimum and maximum.
    """

    initial = Setting[float]()
    target_quantile = Setting[float]()
    rate = Setting[float]()
    minimum = Setting[float]()
    maximum = Setting[float]()
    count_noise = Setting[float]()

    def __init__(
        self,
        initial: float,
        target_quantile: float = 0.9,
        rate: float = 0.2,
        minimum: float | None = None,
        maximum: float | None = None,
        count_noise: float = 0.05,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.initial = positive("initial", initial)
        self.target_quantile = _fraction("target_quantile", target_quantile)
        self.rate = positive("rate", rate)
        self.minimum = positive("minimum", self.initial / _RANGE if minimum is None else minimum)
        self.maximum = positive("maximum", self.initial * _RANGE if maximum is None else maximum)
        self.count_noise = positive("count_noise", count_noise)
        _check_order(self.minimum, self.initial, self.maximum)
        self._reference = self.minimum

    @property
    def reference(self) -> float:
        """Greatest threshold that the bounds of a trained layer hold for; see ``at_threshold``."""
        return self._reference

    @reference.setter
    def reference(self, value: float) -> None:
        refuse_change(self, "reference", value)

    def build(self, input_shape: Any) -> None:
        """Creates the threshold."""
        _, self._entries = balls(input_shape, per_position=False)
        self.threshold = self.add_weight(
            name="threshold", shape=(), initializer=keras.initializers.Constant(self.initial)
        )

    def call(self, inputs: Any) -> Any:
        """The inputs, unchanged."""
        return identity(inputs, self.threshold, backward=self._clip_and_count)

    def _clip_and_count(self, u: Any, threshold: Any) -> tuple[Any, Any]:
        clipped, above = project_and_tell(u, self._into_range(threshold))
        return clipped, ops.sum(ops.cast(above, threshold.dtype))

    def radius(self) -> Any:
        """The radius of the backward pass: the threshold, moved into [minimum, maximum].

        A NaN counts as the minimum.
        """
        return self._into_range(self.threshold.value)

    def updated(self, noisy_count: Any, divisor: float) -> Any:
        """The next threshold, ``C exp(rate (fraction above - (1 - target_quantile)))``.

        Args:
            noisy_count: Gradient of the threshold with noise added; any float, NaN (which moves
                nothing) and infinity included.
            divisor: Expected batch size, so that ``noisy_count / divisor`` is the fraction above.

        Returns:
            A scalar in [minimum, maximum], in the dtype of the layer.
        """
        present = self.radius()
        above = ops.cast(noisy_count, present.dtype) / divisor
        moved = present * ops.exp(self.rate * (above - (1.0 - self.target_quantile)))
        return self._into_range(ops.where(ops.isnan(moved), present, moved))

    def _into_range(self, value: Any) -> Any:
        # Not ops.clip, which lets NaN pass; and ops.where shortens a float to float32 on PyTorch.
        least, greatest = (ops.zeros_like(value) + end for end in (self.minimum, self.maximum))
        value = ops.where(value >= least, value, least)
        return ops.where(value <= greatest, value, greatest)

    def forward_bound(self, x: float) -> float:
        """The identity."""
        return x

    def backward_bound(self, x: float, g: float) -> float:
        """The reference; ``min(g, radius)`` of a frozen layer."""
        if self.trainable_variables:
            return self.reference
        return min(g, float(ops.convert_to_numpy(self.radius())))

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """A sample counts once."""
        return [1.0 for _ in self.trainable_variables]

    def lipschitz(self, x: float) -> float:
        """The forward map is the identity."""
        return 1.0

    def rounding(self, unit: float) -> float:
        """Relative error of the computed norm of n entries.

        It leaves room for eight more roundings: of the minimum in the layer's dtype, and of noise
        that is scaled by ``radius() / minimum`` there.
        """
        return gamma(self._entries + 32, unit)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        own = ("initial", "target_quantile", "rate", "minimum", "maximum", "count_noise")
        return {**super().get_config(), **{name: getattr(self, name) for name in own}}


@contextmanager
def at_threshold(
    layers: Sequence[AdaptiveCotangentClip], value: float | Sequence[float]
) -> Iterator[None]:
    """Inside, the bounds of trained layers hold for thresholds up to a value.

    A variable whose bound is the same with one layer at its minimum and at its maximum, all others
    at their minimum, does not depend on that layer's threshold: either no cotangent comes from
    there, or it was already at the limit of a clip on the way, and stays there.

    Args:
        layers: Adaptive clips.
        value: The threshold, or one for each layer.

    Raises:
        InvalidValue: If a value is not positive and finite.
    """
    before = [layer.reference for layer in layers]
    values = [positive("threshold", v) for v in np.broadcast_to(value, len(layers)).tolist()]
    try:
        for layer, reference in zip(layers, values, strict=True):
            layer._reference = reference
        yield
    finally:
        for layer, reference in zip(layers, before, strict=True):
            layer._reference = reference


def _fraction(name: str, value: Any) -> float:
    if positive(name, value) >= 1.0:
        raise InvalidValue(
            f"{name} must lie strictly between 0 and 1", received=value, fix="Use 0.9"
        )
    return float(value)


def _check_order(minimum: float, initial: float, maximum: float) -> None:
    if not minimum <= initial <= maximum:
        raise InvalidValue(
            "The initial threshold must lie between minimum and maximum",
            received={"minimum": minimum, "initial": initial, "maximum": maximum},
        )
