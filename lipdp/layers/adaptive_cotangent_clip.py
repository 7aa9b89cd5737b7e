"""Bounds the backward signal of each sample by a threshold that follows a quantile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers._backward import identity
from lipdp.layers._ball import balls, project_and_tell
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import gamma, positive
from lipdp.setting import Setting, refuse_change

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
