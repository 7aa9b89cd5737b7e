"""An adversarial search against the bounds that a layer states."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops

from lipdp.bounds.rules import bounds_of
from lipdp.bounds.rules.base import Shapes
from lipdp.errors import InvalidValue
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import unit_roundoff
from lipdp.testing._growth import check_growth
from lipdp.testing._isolation import check_isolation
from lipdp.testing._layer_probe import LayerProbe
from lipdp.testing._merge_search import check_merge
from lipdp.testing._points import (
    adversarial_points,
    cotangents,
    hostile_points,
    id_points,
    norm,
    scaled_to,
)
from lipdp.testing._report import Comparison, Tightness
from lipdp.testing._weights import put_back, weight_settings

_DENSE_OUTPUTS = 8
_ASCENT_STEPS = 8
_REFINEMENTS = 3


def check_layer(
    layer: Any,
    input_shape: Sequence[int] | Sequence[Sequence[int]],
    radius: float | Sequence[float],
    *,
    ids: int | None = None,
    rule: Callable[[Any], Any] | None = None,
    seed: int = 0,
) -> Tightness:
    """Searches for an input, weights and a cotangent that break a bound of a layer.

    The layer is built, its weights are pushed out of their constraint sets and projected back, and
    on inputs of norm at most ``radius`` (zero, ties, one-hot, spheres, and what ascent finds) the
    computed output, input gradient and gradients of each variable are compared with the stated
    bounds times ``1 + rounding``, without further tolerance. Small layers get whole Jacobians and
    exact singular vectors, larger ones a power iteration. If a finite output bound is stated for
    unbounded inputs, rows of NaN, infinity and 3e38 must respect it. In inference mode, differences
    of outputs are compared with ``lipschitz``. The layer's weights are put back.

    Args:
        layer: A ``LipschitzLayer``, or a plain Keras layer with a known rule.
        input_shape: Shape of one sample, without batch axis; a list of shapes for a layer that is
            called on a list of tensors.
        radius: Finite bound of the Euclidean norm of one sample; of several inputs, of each.
        ids: Number of valid ids if the layer takes ids instead of numbers. It gets some of all
            kinds, out of range too, and its output and gradients must stay within their bounds.
        rule: Maps the layer, at each setting of its weights, to what states its bounds in its
            place, with the methods of a ``LipschitzLayer`` (or, for several inputs, ``joint``,
            ``forward_bound(xs)``, ``jacobians(xs)`` and ``rounding(unit)``).
        seed: Of the search.

    Returns:
        The best ratios found.

    Raises:
        BoundViolation: If a bound is broken, samples mix, ``linear_backward`` is not true, or a
            bound grows wrongly with that of the cotangent.
        InvalidValue: If a radius is not positive and finite.
        UnsupportedLayer: If nothing states bounds for this layer.
    """
    rng, result = np.random.default_rng(seed), Comparison(layer.name)
    if any(isinstance(size, Sequence) for size in input_shape):
        shapes = [_shape(shape) for shape in input_shape]
        radii = [_positive(r) for r in np.broadcast_to(radius, len(shapes))]
        check_merge(layer, shapes, radii, rule=rule, result=result, rng=rng)
        return result.tightness()
    shape, r = _shape(input_shape), _positive(radius)
    layer(ops.zeros((1, *shape), dtype=layer.compute_dtype))
    search = _Search(layer, rule or _own_bounds(shape), shape, radius=r, result=result, rng=rng)
    search.ids = ids
    with put_back(layer.trainable_variables):
        for setting in weight_settings(layer.trainable_variables, rng):
            search.run(every=1 if setting in ("initial", "random") else 3)
        search.run_hostile()
        check_isolation(search.probe, search.sample, result, rng)
    return result.tightness()


def _shape(sizes: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in sizes)


def _positive(radius: Any) -> float:
    if not 0 < radius < math.inf:
        raise InvalidValue("The radius is not positive and finite", received=radius, fix="Use 1.0")
    return float(radius)


def _own_bounds(shape: tuple[int, ...]) -> Callable[[Any], Any]:
    def stated(layer: Any) -> Any:
        if isinstance(layer, LipschitzLayer):
            return layer
        output = layer(ops.zeros((1, *shape), dtype=layer.compute_dtype))
        return bounds_of(layer, Shapes((shape,), tuple(output.shape[1:])))

    return stated


class _Search:
    """The search at one setting of the weights."""

    def __init__(
        self,
        layer: Any,
        rule: Callable[[Any], Any],
        shape: tuple[int, ...],
        *,
        radius: float,
        result: Comparison,
        rng: np.random.Generator,
    ) -> None:
        self._state_bounds = rule
        self.radius = radius
        self.result = result
        self.rng = rng
        self.probe = LayerProbe(layer, shape)
        self.inference = LayerProbe(layer, shape, training=False)
        self.names = [v.name for v in layer.trainable_variables]
        self.unit = unit_roundoff(layer.compute_dtype)
        self.ids: int | None = None

    def sample(self) -> np.ndarray:
        """A random input."""
        if self.ids is not None:
            return self.rng.integers(0, self.ids, size=self.probe.shape)
        return scaled_to(self.rng.normal(size=self.probe.shape), self.radius)

    def run(self, every: int) -> None:
        """Inputs of the ball: each ``every``-th special one, and what ascent finds."""
        self.rule = self._state_bounds(self.probe.layer)
        check_growth(self.probe.layer.name, self.rule, self.radius)
        self.slack = 1.0 + self.rule.rounding(self.unit)
        self._check_linearity()
        points = self._special()
        points = points[::every] + [self._ascend(point) for point in points[-8:-5]]
        directions = [self._try_point(point) for point in points]
        self._try_pairs(points, directions)

    def _special(self) -> list[np.ndarray]:
        if self.ids is not None:
            return id_points(self.probe.shape, self.ids, self.rng)
        return adversarial_points(self.probe.shape, self.radius, self.rng)

    def _check_linearity(self) -> None:
        if not getattr(self.rule, "linear_backward", False):
            return
        for x in (0.0, 1e-3 * self.radius, self.radius, 1e3 * self.radius, math.inf):
            for g in (1e-6, 0.3, 17.0, 1e6):
                one, many = self.rule.backward_bound(x, 1.0), self.rule.backward_bound(x, g)
                if not math.isclose(many, g * one, rel_tol=1e-12):
                    received = {"x": x, "g": g, "at g": many, "at 1": one}
                    self.result.fail("its backward bound is not linear in g as claimed", received)

    def run_hostile(self) -> None:
        """Rows outside every ball, if the layer claims to contain them."""
        if math.isinf(self.rule.forward_bound(math.inf)):
            return
        for point in hostile_points(self.probe.shape):
            output = self.probe.forward(point[None])
            bound = self.rule.forward_bound(math.inf) * self.slack
            self.result.compare("output of a hostile row", norm(output), bound)
            for cotangent in cotangents(self.probe.output_size, self.rng):
                self._try_cotangent(point, cotangent, math.inf)

    def _ascend(self, point: np.ndarray) -> np.ndarray:
        """Gradient ascent of ``||f(t)||`` on the sphere: a power iteration if f is linear."""
        for _ in range(_ASCENT_STEPS):
            gradient, _ = self.probe.pullback(point[None], self.probe.forward(point[None]))
            if not 0 < norm(gradient) < math.inf:
                break
            point = scaled_to(gradient[0].astype("float64"), self.radius)
        return point

    def _try_point(self, point: np.ndarray) -> np.ndarray:
        """Compares all bounds at one input; returns the best input direction found."""
        size = norm(self.probe.cast(point))
        output = self.probe.forward(point[None])
        for x in {size, max(size, self.radius)}:
            self.result.compare("output", norm(output), self.rule.forward_bound(x) * self.slack)
        best, direction = -1.0, point
        for cotangent in self._cotangents(point, output, size):
            gradients = self._try_cotangent(point, cotangent, size)
            if norm(gradients[0]) > best:
                best, direction = norm(gradients[0]), gradients[0][0]
        return direction

    def _cotangents(self, point: np.ndarray, output: np.ndarray, size: float) -> list[np.ndarray]:
        dense = self.probe.output_size <= _DENSE_OUTPUTS
        found = cotangents(self.probe.output_size, self.rng, one_hot=not dense)
        if norm(output) > 0 and np.all(np.isfinite(output)):
            found.append(scaled_to(output.ravel().astype("float64"), 1.0))
        if dense:
            return found + self._singular_vectors(point, size)
        return found + self._refined(point, found[-1])

    def _singular_vectors(self, point: np.ndarray, size: float) -> list[np.ndarray]:
        """Left singular vectors of the whole Jacobians, for the input and for each variable.

        All unit vectors are tried on the way.
        """
        units = np.eye(self.probe.output_size)
        rows = [self._try_cotangent(point, unit, size) for unit in units]
        matrices = [np.stack([np.ravel(g) for g in column]) for column in zip(*rows, strict=True)]
        finite = [m.astype("float64") for m in matrices if np.all(np.isfinite(m))]
        return [np.linalg.svd(m, full_matrices=False)[0][:, 0] for m in finite]

    def _refined(self, point: np.ndarray, start: np.ndarray) -> list[np.ndarray]:
        """A power iteration whose forward products are finite differences of the layer."""
        step, cotangent, found = 1e-2 * self.radius, start, []
        for _ in range(_REFINEMENTS):
            direction = scaled_to(self._pull(point, cotangent)[0][0].astype("float64"), step)
            ahead, behind = (
                self.probe.forward(p[None]) for p in (point + direction, point - direction)
            )
            change = (ahead.astype("float64") - behind).ravel()
            if not 0 < norm(change) < math.inf:
                break
            cotangent = scaled_to(change, 1.0)
            found.append(cotangent)
        return found

    def _pull(self, point: np.ndarray, cotangent: np.ndarray) -> list[np.ndarray]:
        gradient, gradients = self.probe.pullback(point[None], cotangent)
        return [gradient, *gradients]

    def _try_cotangent(
        self, point: np.ndarray, cotangent: np.ndarray, size: float
    ) -> list[np.ndarray]:
        length = norm(self.probe.cast(cotangent))
        gradients = self._pull(point, cotangent)
        names = ["input gradient", *(f"gradient of {name}" for name in self.names)]
        for x in {size, max(size, self.radius)}:
            bounds = [self.rule.backward_bound(x, length)]
            bounds += self.rule.parameter_bounds(x, length)
            if len(bounds) != len(gradients):
                self.result.fail("it states another number of bounds than it has variables", bounds)
            for name, gradient, bound in zip(names, gradients, bounds, strict=True):
                self.result.compare(name, norm(gradient), bound * self.slack)
        return gradients

    def _try_pairs(self, points: list[np.ndarray], directions: list[np.ndarray]) -> None:
        """Differences of outputs in inference mode, along the steepest directions and across."""
        constant = self.rule.lipschitz(self.radius) if hasattr(self.rule, "lipschitz") else math.inf
        if math.isinf(constant):
            return
        outputs = self.inference.forward
        for point, direction in zip(points, directions, strict=True):
            away = scaled_to(np.asarray(direction, "float64"), self.radius)
            for one, other in ((away, -away), (point, points[-1]), (point, 0.9 * point)):
                gap = norm(self.probe.cast(one).astype("float64") - self.probe.cast(other))
                change = norm(outputs(one[None]).astype("float64") - outputs(other[None]))
                # Each output is right to its relative slack, which does not shrink with the gap.
                error = 2.0 * (self.slack - 1.0) * self.rule.forward_bound(self._size(one))
                self.result.compare("difference of outputs", change, constant * gap + error)

    def _size(self, point: np.ndarray) -> float:
        return max(self.radius, norm(self.probe.cast(point)))
