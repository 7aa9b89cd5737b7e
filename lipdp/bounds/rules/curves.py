"""Scalar functions applied to each entry: how steep they are, and where they end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lipdp.numerics import gamma, times

#: Covers the host's own roundings in a closed form.
_HOST = 1.0 + 2.0**-40

_LOG_2 = math.nextafter(math.log(2.0), 1.0)


@dataclass(frozen=True)
class Curve:
    """A function f of one entry.

    Attributes:
        slope: Supremum of ``|f'|``, rounded up, f' as automatic differentiation returns it, at
            kinks too.
        at_zero: ``|f(0)|``.
        ceiling: Bound of ``|f|``.
        local: Supremum of ``|f'|`` over [-x, x], as a function of x, where it is known.
        lipschitz: Lipschitz constant of f, if smaller than the derivative that is returned.
        finite: Whether the derivative is at most ``slope`` at NaN and infinity too.
        roundings: Relative error of f and f' as computed, in roundings: that of f relative to
            ``max(|f(0)| + slope |t|, floor)``.
        floor: Positive if f as computed has an absolute error near 0.
    """

    slope: float = 1.0
    at_zero: float = 0.0
    ceiling: float = math.inf
    local: Callable[[float], float] | None = None
    lipschitz: float = math.inf
    finite: bool = False
    roundings: int = 32
    floor: float = 0.0

    def slope_up_to(self, x: float) -> float:
        """Supremum of ``|f'|`` over [-x, x]."""
        return self.slope if self.local is None else min(self.slope, _HOST * self.local(x))


@dataclass(frozen=True)
class Pointwise:
    """f applied to each of n entries of a tensor of norm at most x.

    Each entry lies in [-x, x], where f' is at most a. So the Jacobian, which is diagonal, has norm
    at most a, and ``||f(t) - f(0)|| <= a ||t||`` by the mean value theorem. A bound that is raised
    to ``sqrt(n) floor`` covers the absolute error of n computed entries by its relative slack.

    Attributes:
        curve: The function f.
        entries: The number n.
    """

    curve: Curve
    entries: int
    linear_backward: bool = True

    def forward_bound(self, x: float) -> float:
        # A ceiling says nothing about NaN, which only a bounded input excludes.
        if math.isinf(x):
            return math.inf
        root = math.sqrt(self.entries)
        straight = root * self.curve.at_zero + self.curve.slope_up_to(x) * x
        return max(min(straight, root * self.curve.ceiling), root * self.curve.floor)

    def backward_bound(self, x: float, g: float) -> float:
        if math.isinf(x) and not self.curve.finite:
            return math.inf
        return times(self.curve.slope_up_to(x), g)

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        return []

    def lipschitz(self, x: float) -> float:
        return min(self.curve.slope_up_to(x), self.curve.lipschitz)

    def rounding(self, unit: float) -> float:
        return gamma(self.curve.roundings, unit)

    def inference_bound(self, x: float) -> float:
        return self.forward_bound(x)

    def inference_error(self, x: float, unit: float) -> float:
        # The identity, max(t, 0) and |t| make no rounding of their own.
        exact = self.curve is LINEAR and x < math.inf
        return 0.0 if exact else times(self.rounding(unit), self.forward_bound(x))


def _sigmoid(x: float) -> float:
    """Of x >= 0."""
    return 1.0 / (1.0 + math.exp(-x))


def _gelu_slope(x: float) -> float:
    """``f' = Phi + t phi``, ``f'' = (2 - t^2) phi`` and ``f'(-t) = 1 - f'(t)``.

    So f' grows from 1/2 to its maximum at sqrt 2 and stays above 1/2 thereafter, and at negative t
    ``|f'| <= 1/2``.
    """
    t = min(x, math.sqrt(2.0))
    density = math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
    return 0.5 * (1.0 + math.erf(t / math.sqrt(2.0))) + t * density


def _silu_slope(x: float) -> float:
    """``f'' = s' (2 - t tanh(t / 2))`` with s the sigmoid, and ``f'(-t) = 1 - f'(t)``.

    ``t tanh(t / 2)`` grows with t >= 0 and is below 2 at t = 2.3993, so f' grows up to there; it
    stays above 1/2 thereafter, and at negative t ``|f'| <= 1/2``. Further out the global supremum
    counts.
    """
    if x > 2.3993:
        return math.inf
    s = _sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


def _tanh_shrink_slope(x: float) -> float:
    """``f' = tanh^2`` grows; a floor covers ``t - tanh(t)``, whose error is relative to t."""
    return max(math.tanh(x) ** 2, 0.125)


def _squareplus_slope(x: float) -> float:
    """``f' = (1 + t / sqrt(t^2 + 4)) / 2`` grows."""
    return 0.5 + 0.5 * x / math.hypot(x, 2.0) if x < math.inf else 1.0


def leaky(slope: float) -> Curve:
    """The identity above 0, ``slope t`` below."""
    return Curve(slope=max(1.0, abs(slope)), finite=True, roundings=8)


def exponential_linear(alpha: float) -> Curve:
    """The identity above 0, ``alpha (exp(t) - 1)`` below: steepest at 0.

    TensorFlow subtracts 1 from the rounded exponential.
    """
    return Curve(slope=max(1.0, abs(alpha)), floor=0.125 * max(1.0, abs(alpha)))


def clipped_relu(highest: float) -> Curve:
    """``min(max(t, 0), highest)``."""
    return Curve(ceiling=highest, finite=True, roundings=8)


LINEAR = Curve(finite=True, roundings=8)
RELU = LINEAR
ABS = LINEAR
TANH = Curve(ceiling=1.0)
SIGMOID = Curve(slope=0.25, at_zero=0.5, ceiling=1.0)
# One sixth, rounded up as on PyTorch, which keeps it in float32.
HARD_SIGMOID = Curve(slope=0.1666668, at_zero=0.5, ceiling=1.0, finite=True)
SPARSE_SIGMOID = Curve(slope=0.5, at_zero=0.5, ceiling=1.0, finite=True)
HARD_TANH = Curve(ceiling=1.0, finite=True)
SOFTPLUS = Curve(at_zero=_LOG_2, local=_sigmoid)
LOG_SIGMOID = SOFTPLUS  # f(t) = -softplus(-t)
SOFTSIGN = Curve(ceiling=1.0)
SOFT_SHRINK = Curve(finite=True)
TANH_SHRINK = Curve(local=_tanh_shrink_slope)
SELU = Curve(slope=1.75810, floor=0.25)
GELU = Curve(slope=1.128905, local=_gelu_slope)
GELU_TANH = Curve(slope=1.128994)
SILU = Curve(slope=1.09984, local=_silu_slope)
MISH = Curve(slope=1.08850)
# TensorFlow adds the derivatives of both branches at 0.
CELU = Curve(slope=2.0, lipschitz=1.0)
HARD_SILU = Curve(slope=1.5, local=lambda x: (2.0 * min(x, 3.0) + 3.0) / 6.0)
SQUAREPLUS = Curve(at_zero=1.0, local=_squareplus_slope)
SPARSE_PLUS = Curve(at_zero=0.25, local=lambda x: 0.5 * (1.0 + min(x, 1.0)))
