"""Reflects pairs of channels."""

from __future__ import annotations

import math
import numbers
from typing import Any, final

import keras
from keras import ops

from lipdp.errors import InvalidValue
from lipdp.layers._shapes import divisible
from lipdp.layers.base import NonExpansiveLayer
from lipdp.numerics import gamma
from lipdp.setting import Setting


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
