"""Bounds of ``activation(A(W) x + b)``, shared by dense and convolution layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from lipdp.bounds.rules.base import LayerBounds
from lipdp.projections import Projection
from lipdp.rounding import product_slack, times


@dataclass(frozen=True)
class AffineBounds:
    """A linear operator A(W) on a sample's tensor, a bias repeated at S positions, an activation.

    ``||A x|| <= ||A||_2 ||x||``. The gradient of W is ``P(x)^T G`` where the matrix P(x) of patches
    has Frobenius norm at most ``reach ||x||``. A bias repeated at S positions has norm ``sqrt(S)
    ||b||`` and, by Cauchy-Schwarz, gradient at most ``sqrt(S) ||G||``.

    Attributes:
        operator: Bound of ``||A(W)||_2`` for every W that training can visit.
        present: Gives a bound of it for the W of now.
        reach: Bound of ``||P(x)||_F / ||x||``; 1 for a dense layer.
        bias: Bound of ``||b||``, 0 without a bias.
        positions: Number S of positions of the output.
        trained: For the kernel, and for the bias if there is one, whether it is trained.
        activation: What follows.
        inner: Length of the longest inner product.
        side: ``|| |A| ||_2 <= sqrt(side) ||A||``, with the bound of A that is used.
    """

    operator: float
    present: Callable[[], float]
    reach: float
    bias: float
    positions: int
    trained: tuple[bool, ...]
    activation: LayerBounds
    inner: int
    side: float
    linear_backward: bool = True

    def forward_bound(self, x: float) -> float:
        return self.activation.forward_bound(self._affine(x))

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.operator, self.activation.backward_bound(self._affine(x), g))

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        inner = self.activation.backward_bound(self._affine(x), g)
        bounds = [times(self.reach, x, inner), times(math.sqrt(self.positions), inner)]
        return [b for b, trained in zip(bounds, self.trained, strict=False) if trained]

    def lipschitz(self, x: float) -> float:
        return times(self.present(), self.activation.lipschitz(self._affine(x)))

    def rounding(self, unit: float) -> float:
        # The rounding of the activation, one for the bias, the sum over positions of gradients.
        inner = max(self.inner, self.positions) + 8
        product = 1.0 + product_slack(inner, self.side, unit)
        # The activation sees a preactivation that may be longer by the slack of the product, where
        # the local slopes of its curves grow by at most the square of that.
        return product**3 * (1.0 + self.activation.rounding(unit)) ** 2 - 1.0

    def _affine(self, x: float) -> float:
        return times(self.operator, x) + math.sqrt(self.positions) * self.bias


def weight_bound(variable: Any, constraint: Any, bound_of: Callable[[Any], float]) -> float:
    """Spectral norm bound of a weight: of the present one, and if trained of its whole set too."""
    if variable.trainable and not isinstance(constraint, Projection):
        return math.inf
    present = bound_of(keras.ops.convert_to_numpy(variable))
    return (
        max(present, constraint.spectral_bound(variable.shape)) if variable.trainable else present
    )


def trained_flags(*variables: Any) -> tuple[bool, ...]:
    """For each variable that is not None, whether it is trained."""
    return tuple(bool(v.trainable) for v in variables if v is not None)
