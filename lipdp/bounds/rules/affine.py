"""Bounds of ``activation(A(W) x + b)``, shared by dense and convolution layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import keras

from lipdp.bounds.final import check_final
from lipdp.bounds.precision import usable, working_unit
from lipdp.bounds.rules.base import LayerBounds
from lipdp.numerics import gamma, product_slack, times
from lipdp.projections import Projection, frobenius_norm_bound


@dataclass(frozen=True)
class Present:
    """The linear operator A of now, each number computed when it is asked for.

    Attributes:
        norm: Bound of ``||A||_2``.
        absolute: Bound of ``|| |A| ||_2``, with all its entries made positive.
        bias: Bound of ``||b||``, 0 without a bias.
        roundings: Successive roundings of one entry of ``A x + b``.
    """

    norm: Callable[[], float]
    absolute: Callable[[], float]
    bias: Callable[[], float]
    roundings: int


def present_operator(
    norm: Callable[[], float], absolute: Callable[[], float], bias: Any, inner: int
) -> Present:
    """The operator of now, of which each number is computed at most once.

    Args:
        norm: As in ``Present``.
        absolute: As there.
        bias: The variable, or None.
        inner: Length of the longest inner product forward.
    """

    def bias_norm() -> float:
        return 0.0 if bias is None else frobenius_norm_bound(keras.ops.convert_to_numpy(bias))

    # One rounding more for the bias, and one to spare.
    return Present(cache(norm), cache(absolute), cache(bias_norm), inner + 2)


@dataclass(frozen=True)
class AffineBounds:
    """A linear operator A(W) on a sample's tensor, a bias repeated at S positions, an activation.

    ``||A x|| <= ||A||_2 ||x||``. The gradient of W is ``P(x)^T G`` where the matrix P(x) of patches
    has Frobenius norm at most ``reach ||x||``. A bias repeated at S positions has norm ``sqrt(S)
    ||b||`` and, by Cauchy-Schwarz, gradient at most ``sqrt(S) ||G||``.

    Attributes:
        operator: Bound of ``||A(W)||_2`` for every W that training can visit.
        present: The operator of now.
        reach: Bound of ``||P(x)||_F / ||x||``; 1 for a dense layer.
        bias: Bound of ``||b||``, 0 without a bias.
        positions: Number S of positions of the output.
        trained: For the kernel, and for the bias if there is one, whether it is trained.
        activation: What follows.
        slack: Relative rounding slack of all products, see ``affine_slack``.
    """

    operator: float
    present: Present
    reach: float
    bias: float
    positions: int
    trained: tuple[bool, ...]
    activation: LayerBounds
    slack: float
    linear_backward: bool = True

    def forward_bound(self, x: float) -> float:
        return self.activation.forward_bound(self._seen(x))

    def backward_bound(self, x: float, g: float) -> float:
        return times(self.operator, self.activation.backward_bound(self._seen(x), g))

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        inner = self.activation.backward_bound(self._seen(x), g)
        bounds = [times(self.reach, x, inner), times(math.sqrt(self.positions), inner)]
        return [b for b, trained in zip(bounds, self.trained, strict=False) if trained]

    def lipschitz(self, x: float) -> float:
        return times(self.present.norm(), self.activation.lipschitz(self._seen_now(x)))

    def rounding(self, unit: float) -> float:
        # Of the activation, and of the products backward; those forward are in what it sees.
        return (1.0 + self.slack) * (1.0 + self.activation.rounding(unit)) - 1.0

    def inference_bound(self, x: float) -> float:
        return self.activation.inference_bound(self._seen_now(x))

    def inference_error(self, x: float, unit: float) -> float:
        """The products err by ``gamma (|A| |x| + |b|)``, which the activation multiplies.

        What it sees is bounded all the same where its own output has a ceiling.
        """
        now = self.present
        products = times(now.absolute(), x) + math.sqrt(self.positions) * now.bias()
        products = times(gamma(now.roundings, unit), products)
        seen = usable(self._seen_now(x) + products, unit)
        inherited = times(self.activation.lipschitz(seen), products)
        return inherited + self.activation.inference_error(seen, unit)

    def _seen_now(self, x: float) -> float:
        """Bound of the norm of what the activation sees, exactly computed, at present weights."""
        return times(self.present.norm(), x) + math.sqrt(self.positions) * self.present.bias()

    def _seen(self, x: float) -> float:
        """Bound of the norm of what the activation sees, as computed: its slope depends on it."""
        exact = times(self.operator, x) + math.sqrt(self.positions) * self.bias
        return times(exact, 1.0 + self.slack)


def affine_slack(layer: Any, inner: int, positions: int, side: float) -> float:
    """Relative rounding slack of the products of an affine layer, forward and backward.

    Args:
        layer: The layer, whose precision is probed.
        inner: Length of the longest inner product.
        positions: Number of positions, over which the gradients of kernel and bias sum.
        side: ``|| |A| ||_2 <= sqrt(side) ||A||``, with the bound of A that is used.
    """
    # Two roundings more for the bias, and some to spare.
    return product_slack(max(inner, positions) + 8, side, working_unit(layer))


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
    """Spectral norm bound of a weight: of the present one, and if trained of its whole set too."""
    present = bound_of(keras.ops.convert_to_numpy(variable))
    if not variable.trainable:
        return present
    projection = projection_of(variable)
    return (
        math.inf if projection is None else max(present, projection.spectral_bound(variable.shape))
    )


def trained_flags(*variables: Any) -> tuple[bool, ...]:
    """For each variable that is not None, whether it is trained."""
    return tuple(bool(v.trainable) for v in variables if v is not None)
