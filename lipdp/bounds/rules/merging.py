"""Rules of weightless layers that make one tensor of several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras

from lipdp.bounds.rules.base import MergeBounds, MergeRules
from lipdp.bounds.shapes import Shapes
from lipdp.errors import UnsupportedLayer
from lipdp.numerics import gamma, times


@dataclass(frozen=True)
class WeightedSum:
    """``sum_i w_i t_i`` of equal shapes: triangle inequality forward, ``w_i`` to each input.

    The computed sum is off by at most ``gamma_m sum |w_i t_i|`` an entry.
    """

    weights: tuple[float, ...]
    joint: bool = False

    def forward_bound(self, xs: Sequence[float]) -> float:
        return math.fsum(times(w, x) for w, x in zip(self.weights, xs, strict=True))

    def jacobians(self, xs: Sequence[float]) -> list[float]:
        return list(self.weights)

    def rounding(self, unit: float) -> float:
        return gamma(len(self.weights) + 3, unit)


@dataclass(frozen=True)
class Joined:
    """Tensors side by side: squares of norms add, and so do those of the cotangent's parts."""

    inputs: int
    joint: bool = True

    def forward_bound(self, xs: Sequence[float]) -> float:
        return math.hypot(*xs)

    def jacobians(self, xs: Sequence[float]) -> list[float]:
        return [1.0] * self.inputs

    def rounding(self, unit: float) -> float:
        return gamma(2, unit)


@dataclass(frozen=True)
class Product:
    """Entrywise product, shapes broadcast.

    ``||a b|| <= max |b| ||a|| <= ||a|| ||b||``. The gradient of a sums ``u b`` over the positions
    at which an entry of a is repeated, at most ``||u|| ||b||`` by Cauchy-Schwarz.
    """

    terms: int
    joint: bool = False

    def forward_bound(self, xs: Sequence[float]) -> float:
        return times(*xs)

    def jacobians(self, xs: Sequence[float]) -> list[float]:
        return [times(1.0, *xs[:i], *xs[i + 1 :]) for i in range(len(xs))]

    def rounding(self, unit: float) -> float:
        return gamma(self.terms, unit)


def _add(layer: Any, shapes: Shapes) -> MergeBounds:
    _check_equal(layer, shapes)
    return WeightedSum((1.0,) * len(shapes.inputs))


def _average(layer: Any, shapes: Shapes) -> MergeBounds:
    _check_equal(layer, shapes)
    return WeightedSum((1.0 / len(shapes.inputs),) * len(shapes.inputs))


def _concatenate(layer: Any, shapes: Shapes) -> MergeBounds:
    if sum(math.prod(shape) for shape in shapes.inputs) != shapes.size:
        raise UnsupportedLayer(
            f"The layer {layer.name!r} concatenates batches and not samples",
            received=layer.axis,
            fix="Use axis=-1, or any axis but that of the batch",
        )
    return Joined(len(shapes.inputs))


def _multiply(layer: Any, shapes: Shapes) -> MergeBounds:
    _check_ranks(layer, shapes)
    return Product(len(shapes.inputs) + shapes.size + 2)


def _check_equal(layer: Any, shapes: Shapes) -> None:
    if any(shape != shapes.output for shape in shapes.inputs):
        raise UnsupportedLayer(
            f"The layer {layer.name!r} repeats an input of a smaller shape",
            received=shapes.inputs,
            fix="Give it inputs of one shape (repeat the small one with RepeatVector or "
            "UpSampling2D, whose bound is known)",
        )


def _check_ranks(layer: Any, shapes: Shapes) -> None:
    """Keras decides at the first call whether samples get axes in front to make ranks equal.

    Without them, (n, K) and (n, 1, K) broadcast to (n, n, K), every row with every other one.
    """
    ranks = [len(shape) for shape in shapes.inputs]
    if len(set(ranks)) > 1 and not getattr(layer, "_reshape_required", False):
        raise UnsupportedLayer(
            f"The shared layer {layer.name!r} was made for inputs of one rank and would mix the "
            "samples of a batch",
            received=shapes.inputs,
            fix="Use a layer of its own for these inputs",
        )


RULES: MergeRules = MappingProxyType(
    {
        keras.layers.Add: _add,
        keras.layers.Average: _average,
        keras.layers.Concatenate: _concatenate,
        keras.layers.Multiply: _multiply,
        keras.layers.Subtract: _add,
    }
)
