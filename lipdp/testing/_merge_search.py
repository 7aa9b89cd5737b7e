"""The search for layers that are called on a list of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.bounds.rules import merge_bounds_of
from lipdp.bounds.rules.base import Shapes
from lipdp.numerics import unit_roundoff
from lipdp.testing._isolation import check_isolation
from lipdp.testing._layer_probe import LayerProbe
from lipdp.testing._points import adversarial_points, cotangents, norm, scaled_to
from lipdp.testing._report import Comparison

_SHUFFLES = 3

Parts = list[np.ndarray]


def check_merge(
    layer: Any,
    shapes: Sequence[tuple[int, ...]],
    radii: Sequence[float],
    *,
    rule: Callable[[Any], Any] | None,
    result: Comparison,
    rng: np.random.Generator,
) -> None:
    """Compares outputs, gradients of each input and differences of outputs with their bounds.

    Args:
        layer: Without weights.
        shapes: Of one sample of each input.
        radii: Bounds of the norms of the inputs.
        rule: As in ``check_layer``.
        result: Of the search.
        rng: Source of random inputs.

    Raises:
        BoundViolation: If a bound is broken or samples mix.
    """
    search = _MergeSearch(layer, shapes, radii, result)
    stated = rule(layer) if rule else merge_bounds_of(layer, search.shapes)

    def draw() -> np.ndarray:
        return _flat([scaled_to(rng.normal(size=s), r) for s, r in zip(shapes, radii, strict=True)])

    check_isolation(search.probe, draw, result, rng)
    points = list(_points(shapes, radii, rng))
    for one, other in zip(points, [*points[1:], points[0]], strict=True):
        search.try_point(stated, one, cotangents(search.probe.output_size, rng))
        search.try_pair(stated, one, other)


def _points(
    shapes: Sequence[tuple[int, ...]], radii: Sequence[float], rng: np.random.Generator
) -> Iterator[Parts]:
    """Special points of each ball, alike ones together and shuffled."""
    special = [adversarial_points(s, r, rng) for s, r in zip(shapes, radii, strict=True)]
    yield from (list(parts) for parts in zip(*special, strict=True))
    for _ in range(_SHUFFLES):
        shuffled = [[column[i] for i in rng.permutation(len(column))] for column in special]
        yield from (list(parts) for parts in zip(*shuffled, strict=True))


class _Packed(keras.layers.Layer):
    """A layer of several inputs as a layer of one, in which they lie flat, side by side."""

    def __init__(self, layer: Any, shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__(dtype=layer.compute_dtype, name="packed")
        self.layer = layer
        self.shapes = [tuple(shape) for shape in shapes]
        self.cuts = [int(c) for c in np.cumsum([math.prod(s) for s in shapes])]
        self(ops.zeros((1, self.cuts[-1]), dtype=self.compute_dtype))

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The layer's output."""
        parts = ops.split(inputs, self.cuts[:-1], axis=1)
        shaped = [ops.reshape(p, (-1, *s)) for p, s in zip(parts, self.shapes, strict=True)]
        return self.layer(shaped, training=training)


class _MergeSearch:
    """Measures one layer."""

    def __init__(
        self,
        layer: Any,
        shapes: Sequence[tuple[int, ...]],
        radii: Sequence[float],
        result: Comparison,
    ) -> None:
        self.radii, self.result = list(radii), result
        self.packed = _Packed(layer, shapes)
        self.probe = LayerProbe(self.packed, (self.packed.cuts[-1],))
        self.inference = LayerProbe(self.packed, self.probe.shape, training=False)
        self.shapes = Shapes(tuple(shapes), self.probe.output_shape)
        self.unit = unit_roundoff(layer.compute_dtype)

    def try_point(self, stated: Any, parts: Parts, signals: list[np.ndarray]) -> None:
        """The output, and the gradients of the inputs at each cotangent."""
        slack = 1.0 + stated.rounding(self.unit)
        sizes = [norm(self.probe.cast(part)) for part in parts]
        point = _flat(parts)
        output = self.probe.forward(point[None])
        reached = [sizes, [max(x, r) for x, r in zip(sizes, self.radii, strict=True)]]
        for xs in reached:
            self.result.compare("output", norm(output), stated.forward_bound(xs) * slack)
        for signal in [*signals, scaled_to(output.ravel().astype("float64"), 1.0)]:
            whole = self.probe.pullback(point[None], signal)[0][0]
            g = norm(self.probe.cast(signal)) * slack
            for xs in reached:
                self._compare(whole, [j * g for j in stated.jacobians(xs)], stated.joint)

    def _compare(self, whole: np.ndarray, bounds: list[float], joint: bool) -> None:
        for i, part in enumerate(self._split(whole)):
            self.result.compare(f"gradient of input {i}", norm(part), bounds[i])
        if joint:
            self.result.compare("gradient of all inputs", norm(whole), max(bounds))

    def try_pair(self, stated: Any, one: Parts, other: Parts) -> None:
        """A difference of outputs against the differences of the inputs."""
        ends = [self.probe.cast(_flat(parts)) for parts in (one, other)]
        outputs = [self.inference.forward(end[None]).astype("float64") for end in ends]
        xs = [max(norm(a), norm(b)) for a, b in zip(*map(self._split, ends), strict=True)]
        gap = self._split(ends[0].astype("float64") - ends[1])
        moves = [j * norm(part) for j, part in zip(stated.jacobians(xs), gap, strict=True)]
        bound = math.hypot(*moves) if stated.joint else math.fsum(moves)
        error = 2.0 * stated.rounding(self.unit) * stated.forward_bound(xs)
        change = norm(outputs[0] - outputs[1])
        self.result.compare("difference of outputs", change, bound + error)

    def _split(self, flat: np.ndarray) -> list[np.ndarray]:
        return np.split(flat, self.packed.cuts[:-1])


def _flat(parts: Parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])
